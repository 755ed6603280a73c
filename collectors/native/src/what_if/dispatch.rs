//! What an executor executes next, as the sources of rclcpp and `cm_executors` have it.
//!
//! `WaitSet`: rclcpp 29.3.0, `Executor::get_next_executable` (src/rclcpp/executor.cpp) and
//! `WaitResult::next_ready_*` (`wait_result.hpp`). All that is ready when the wait ends is executed
//! once: timers, subscriptions, services, clients, waitables, among which are subscriptions within
//! the process; then it waits anew. What a group blocks stays in it if it is a timer and is dropped
//! else. The order within a kind is that of a hash map, here `place`. One thread at a time looks
//! into the wait set or waits (`MultiThreadedExecutor::run`), see `wait.rs`.
//!
//! `Events`: rclcpp 29.3.0, `EventsExecutor::spin` and `TimersManager::execute_ready_timers_unsafe`.
//! One queue. A timer is called as it is due, so that what is late adds up there. A message that a
//! later one replaced leaves its event behind, which then takes nothing.
//!
//! `Groups`: `cm_executors` d7fbad3, `FirstInFirstOutScheduler` and `CBGScheduler`. Groups that have
//! work stand in one queue, each with a queue of its own. A group comes back to the end after one
//! execution, whatever its type, and a timer is due again only after its execution.

use std::collections::VecDeque;

use super::state::View;
use super::system::Order;

/// What waits to be executed by one executor.
pub struct Dispatch {
    order: Order,
    /// Callbacks in the wait set, the next one last; or events.
    queue: VecDeque<usize>,
    /// Groups that have work and do not run.
    groups: VecDeque<usize>,
}

/// The queue of each group.
#[derive(Default)]
pub struct Group {
    /// Callbacks, by order of events.
    queue: VecDeque<usize>,
    /// Whether it stands in the queue of groups.
    queued: bool,
}

impl Dispatch {
    /// Nothing waits.
    pub fn new(order: Order) -> Self {
        let (queue, groups) = (VecDeque::new(), VecDeque::new());
        Self {
            order,
            queue,
            groups,
        }
    }

    /// A message came, or a timer is due; `running`: its group executes a callback.
    pub fn event(&mut self, callback: usize, group: usize, running: bool, groups: &mut [Group]) {
        match self.order {
            Order::WaitSet => {}
            Order::Events => self.queue.push_back(callback),
            Order::Groups => {
                groups[group].queue.push_back(callback);
                if !running {
                    self.offer(group, groups);
                }
            }
        }
    }

    /// The group executes nothing any more.
    pub fn ended(&mut self, group: usize, groups: &mut [Group]) {
        if self.order == Order::Groups {
            self.offer(group, groups);
        }
    }

    fn offer(&mut self, number: usize, groups: &mut [Group]) {
        let group = &mut groups[number];
        if !group.queued && !group.queue.is_empty() {
            group.queued = true;
            self.groups.push_back(number);
        }
    }

    /// The next callback for a thread that is free.
    pub fn next(&mut self, view: &View, groups: &mut [Group]) -> Option<usize> {
        match self.order {
            Order::WaitSet => self.of_snapshot(view),
            Order::Events => loop {
                let callback = self.queue.pop_front()?;
                if view.ready(callback) {
                    return Some(callback);
                }
            },
            Order::Groups => loop {
                let group = self.groups.pop_front()?;
                groups[group].queued = false;
                let callback = groups[group].queue.pop_front()?;
                if view.ready(callback) {
                    return Some(callback);
                }
                self.offer(group, groups);
            },
        }
    }

    /// A wait ended: all that is ready is in the wait set.
    pub fn woken(&mut self, view: &View) {
        let ready = view.ordered.iter().copied();
        self.queue = ready.filter(|x| view.ready(*x)).collect();
    }

    fn of_snapshot(&mut self, view: &View) -> Option<usize> {
        let mut place = 0;
        while let Some(callback) = self.queue.get(place).copied() {
            let free = view.free(callback);
            if !free && view.timer(callback) {
                place += 1;
                continue;
            }
            self.queue.remove(place);
            if free && view.ready(callback) {
                return Some(callback);
            }
        }
        None
    }
}
