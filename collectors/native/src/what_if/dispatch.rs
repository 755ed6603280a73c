//! Choose an executor's next callback, following the sources of rclcpp and `cm_executors`.
//!
//! `WaitSet`: rclcpp 29.3.0, `Executor::get_next_executable` (src/rclcpp/executor.cpp) and
//! `WaitResult::next_ready_*` (`wait_result.hpp`). Every callback that is ready when the wait ends
//! is executed once, in the order timers, subscriptions, services, clients, waitables (these
//! include intra-process subscriptions). Then the executor waits again. A timer whose group is busy
//! stays in the wait set; anything else whose group is busy is dropped from it. Whether a waitable
//! is ready is decided when its turn comes, so that it also executes what arrived after the wait.
//! Within a kind the order is that in which nodes were added to the executor, which `place` stands
//! for. Only one thread at a time searches the wait set or waits (`MultiThreadedExecutor::run`),
//! see `wait.rs`.
//!
//! `Events`: rclcpp 29.3.0, `EventsExecutor::spin` and
//! `TimersManager::execute_ready_timers_unsafe`. There is one queue of events. A thread of its own
//! calls each timer when it is due, so the calls of a late timer pile up in the queue. When a
//! message is replaced by a later one, its event stays in the queue and takes nothing.
//!
//! `Groups`: `cm_executors` d7fbad3, `FirstInFirstOutScheduler` and `CBGScheduler`. Callback groups
//! with work stand in one queue, and each group has a queue of its own. After one execution a group
//! of any type goes back to the end of the queue. A thread of its own queues timers that are due
//! (`TimerQueue`). A timer becomes due again only after its execution.

use std::collections::VecDeque;

use super::state::View;
use super::system::{Order, WAITABLE};

/// The callbacks that wait for one executor.
pub struct Dispatch {
    order: Order,
    /// Callbacks in the wait set, or events, in the order in which they are executed.
    queue: VecDeque<usize>,
    /// Groups that have work and are not executing a callback.
    groups: VecDeque<usize>,
}

/// The queue of each group.
#[derive(Default)]
pub struct Group {
    /// Callbacks in the order of their events.
    queue: VecDeque<usize>,
    /// Whether the group stands in the queue of groups.
    queued: bool,
}

impl Dispatch {
    /// Make a dispatch without waiting callbacks.
    pub fn new(order: Order) -> Self {
        let (queue, groups) = (VecDeque::new(), VecDeque::new());
        Self {
            order,
            queue,
            groups,
        }
    }

    /// Handle a message that arrived or a timer that is due. `running` says whether the group is
    /// executing a callback.
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

    /// Note that the group has finished its last execution.
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

    /// Return the next callback for a free thread.
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

    /// Handle the end of a wait: the wait set now holds every ready callback, and every waitable.
    pub fn woken(&mut self, view: &View) {
        let waitable = |x: usize| view.system.callbacks[x].kind == WAITABLE;
        let ready = view.ordered.iter().copied();
        self.queue = ready.filter(|x| waitable(*x) || view.ready(*x)).collect();
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
