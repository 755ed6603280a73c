//! Hold the state of the pass, and dispatch each event.

use std::sync::Arc;

use ahash::HashMap;
use arrow_schema::ArrowError;

use crate::about::About;
use crate::callbacks::{Callbacks, Execution};
use crate::gaps::{Continuity, Gaps};
use crate::heap::Heap;
use crate::identity::{Identity, NOTHING, Process, Thread};
use crate::ids::{Id, Maybe, get};
use crate::intake::{Batches, Event, Intake};
use crate::kinds::Kind;
use crate::matches::Matches;
use crate::offsets::Offsets;
use crate::publications::{Publication, Publications};
use crate::registry::{HandleKind, Registry, RingBuffer, Subscription};
use crate::ring_buffers::RingBuffers;
use crate::rows::{Disk, NEVER, Rows};
use crate::services::Services;
use crate::takes::{Take, Takes};

/// An execution that has not ended: host, pid namespace, process and thread; start; the callback's
/// address; whether the message came within the process.
pub type Running = ((String, i64, i32, i32), i64, u64, bool);

/// The state of the pass after the last event.
#[derive(Clone)]
pub struct Model {
    pub(crate) identity: Identity,
    pub(crate) registry: Registry,
    pub(crate) about: About,
    pub(crate) gaps: Gaps,
    pub(crate) continuity: Continuity,
    pub(crate) callbacks: Callbacks,
    pub(crate) publications: Publications,
    pub(crate) takes: Takes,
    pub(crate) ring_buffers: RingBuffers,
    pub(crate) matches: Matches,
    pub(crate) services: Services,
    pub(crate) offsets: Offsets,
    pub(crate) heap: Heap,
    pub(crate) disk: Option<Arc<Disk>>,
}

impl Model {
    /// Start before any event. Rows that do not fit into memory go to the disk, if there is one;
    /// at least `keys` keys of messages are remembered until they are matched.
    #[must_use]
    pub fn new(
        identity: Identity,
        registry: Registry,
        about: About,
        gaps: Gaps,
        disk: Option<Disk>,
        keys: usize,
    ) -> Self {
        let disk = disk.map(Arc::new);
        let gaps = gaps.of_processes(&identity.processes);
        let on = disk.as_ref();
        let mut model = Self {
            identity,
            registry,
            about,
            gaps,
            continuity: Continuity::default(),
            callbacks: Callbacks::default(),
            publications: Publications::default(),
            takes: Takes::default(),
            ring_buffers: RingBuffers::default(),
            matches: Matches::new(keys),
            services: Services::default(),
            offsets: Offsets::default(),
            heap: Heap::default(),
            disk: None,
        };
        model.callbacks.executions = Rows::on(on);
        model.callbacks.intervals = Rows::on(on);
        model.publications.rows = Rows::on(on);
        model.takes.rows = Rows::on(on);
        model.ring_buffers.rows = Rows::on(on);
        model.heap.blocks = Rows::on(on);
        Self { disk, ..model }
    }

    /// # Errors
    ///
    /// Rows could not be written to the disk, or read back.
    pub(crate) fn check(&self) -> Result<(), std::io::Error> {
        let failure = self.disk.as_ref().and_then(|disk| disk.failure());
        failure.map_or(Ok(()), Err)
    }

    /// Process all events, given by name without the provider, each kind in order of time.
    ///
    /// # Errors
    ///
    /// A batch cannot be read, or rows cannot be written to the disk.
    pub fn run(&mut self, events: HashMap<String, Batches>) -> Result<(), ArrowError> {
        let mut intake = Intake::new(events, &mut self.identity)?;
        while let Some((kind, event)) = intake.next(&mut self.identity)? {
            self.on(kind, event);
        }
        Ok(self.check()?)
    }

    /// Forget what began before a time: it counts as dropped by the tracer, not as never having
    /// happened. What threads are doing is remembered, and so are executions that have not ended.
    pub fn forget(&mut self, since: i64) {
        self.callbacks.forget(since);
        let publications = &mut self.publications.rows;
        publications.forget(|row| row.publish < since);
        let first = publications.first();
        let old = |publication: Id<Publication>| publication.number() < first;
        self.ring_buffers
            .rows
            .forget(|row| row.message.is_none_or(old));
        self.takes.rows.forget(|row| row.time < since);
        self.services.forget(since);
        self.gaps.forget(since);
    }

    /// Return the executions of callbacks that have not ended, and of which no end can be missing.
    #[must_use]
    pub fn running(&self) -> Vec<Running> {
        let running = self
            .callbacks
            .running()
            .filter_map(|(callback, execution)| {
                let process = self.process(execution.thread);
                let later = Event::new(i64::MAX, NOTHING).of(execution.thread, process, [0, 0]);
                if self
                    .gaps
                    .before(self.continuity.last(execution.thread), &later)
                {
                    return None;
                }
                let about = get(&self.identity.processes, process)?;
                let host = get(&self.identity.hosts, about.host)?.clone();
                let vtid = self.identity.vtid(execution.thread);
                let intra = execution.intra == Some(true);
                let place = (host, about.namespace, about.vpid, vtid);
                Some((place, execution.start, callback, intra))
            });
        running.collect()
    }

    /// Go on with executions that an earlier pass saw begin: all events of their threads up to a time
    /// are known. This comes before the first event.
    pub fn resume(&mut self, mut running: Vec<Running>, until: i64) {
        running.sort_unstable_by_key(|(_, start, ..)| *start);
        for ((host, namespace, vpid, vtid), start, callback, intra) in running {
            let host = self.identity.host_named(&host);
            let asked = (host, namespace, Some(vpid), Some(vtid));
            let thread = self.identity.thread(asked, start);
            let event = Event::new(start, NOTHING);
            let event = event.of(thread, self.process(thread), [callback, u64::from(intra)]);
            self.registry.advance_to(start);
            self.callbacks.on_start(&event, &self.registry);
            self.continuity.seen(thread, until);
        }
    }

    /// Return the columns that say when and where an event happened, as far as they are needed.
    #[must_use]
    pub fn context(&self) -> Vec<&'static str> {
        let several = (self.identity.hosts.len() != 1).then_some("host");
        let cpu = (!self.gaps.is_empty()).then_some("cpu_id");
        let always = ["time_ns", "vpid", "vtid", "ctx_pid_ns"];
        always.into_iter().chain(several).chain(cpu).collect()
    }

    /// End everything that a thread had begun: the events that ended it, or began something new,
    /// may be missing before this event.
    fn cut(&mut self, event: &Event) {
        self.callbacks.cut(event.thread);
        self.publications.cut(event.thread);
        self.on_other(event.thread);
    }

    /// Handle an event that cannot come between a take or a request and its callback.
    fn on_other(&mut self, thread: Id<Thread>) {
        self.takes.on_other(thread);
        self.services.on_other(thread);
    }

    /// Note that an event of a thread is missing since a time, unless a gap covers that already.
    fn on_broken(&mut self, since: i64, event: &Event) {
        if since != NEVER && !self.gaps.between(event.process, since, event.time) {
            self.gaps.on_broken(event.process, since, event.time);
            self.cut(event);
        }
    }

    /// Process one event.
    fn on(&mut self, kind: Kind, event: &Event) {
        self.registry.advance_to(event.time);
        self.identity.on_event(kind, event);
        let seen = self.continuity.on_event(event, kind.of_ros());
        if !self.gaps.is_empty() && self.gaps.before(seen, event) {
            self.cut(event);
        }
        match kind {
            Kind::CallbackStart => self.on_callback_start(event),
            Kind::CallbackEnd => {
                if !self.callbacks.on_end(event) {
                    self.on_broken(seen.ros, event);
                }
                self.on_other(event.thread);
            }
            Kind::Wait | Kind::WaitStart | Kind::WaitEnd | Kind::Ready | Kind::Execute => {
                self.callbacks.on_executor(kind, event);
                self.on_other(event.thread);
            }
            Kind::IntraPublish | Kind::RclcppPublish | Kind::RclPublish | Kind::RmwPublish => {
                self.on_publish(kind, event);
            }
            Kind::Content => self.publications.on_content(event),
            Kind::RmwTake => self.on_rmw_take(event),
            Kind::RclTake | Kind::Received | Kind::RclcppTake => {
                self.takes.on_taken_above(kind, event);
            }
            Kind::Enqueue => {
                let buffer = self.ring_buffer(event);
                let since = self.ring_buffers.out_of_turn(event, buffer);
                self.on_broken(since, event);
                let ring_buffer = get(&self.registry.ring_buffers, buffer);
                let publications = &mut self.publications;
                self.ring_buffers
                    .on_enqueue(event, ring_buffer, publications, &self.gaps);
            }
            Kind::Dequeue => {
                let buffer = get(&self.registry.ring_buffers, self.ring_buffer(event));
                let subscription = buffer.and_then(|ring_buffer| ring_buffer.subscription);
                let take = self.takes.on_dequeue(event, subscription);
                self.ring_buffers.on_dequeue(event, take, &self.gaps);
            }
            Kind::Clear => self.ring_buffers.on_clear(event),
            Kind::FunctionEntry => self.callbacks.on_entry(event, &self.registry),
            Kind::FunctionExit => self.callbacks.on_exit(event),
            // Calls of an allocator.
            _ if !kind.of_ros() => {
                let within = self.callbacks.around(event.thread);
                self.heap.on_call(kind, event, within);
            }
            // Requests and responses.
            _ => {
                if matches!(kind, Kind::TakeRequest | Kind::TakeResponse) {
                    self.takes.on_other(event.thread);
                }
                let within = self.callbacks.around(event.thread);
                self.services.on_event(kind, event, &self.registry, within);
                if kind == Kind::SendResponse {
                    self.on_stamp(event, event.signed(4).unwrap_or(NEVER));
                }
            }
        }
    }

    fn on_callback_start(&mut self, event: &Event) {
        let number = self.callbacks.on_start(event, &self.registry);
        let execution = self.callbacks.executions.get(number);
        if let (Some(number), Some(execution)) = (number, execution) {
            self.takes.on_start(number, &execution, &self.registry);
            self.services.on_start(number, &execution, &self.registry);
        }
    }

    fn on_publish(&mut self, kind: Kind, event: &Event) {
        let within = self.callbacks.around(event.thread);
        let (registry, publications) = (&self.registry, &mut self.publications);
        let row = publications.on_publish(kind, event, registry, within);
        if kind == Kind::RmwPublish
            && let Some(row) = row
            && let Some(publication) = publications.rows.get(row)
        {
            let (rows, takes) = (&mut publications.rows, &mut self.takes.rows);
            let topic = registry.topic(publication.publisher);
            self.matches.on_publish(rows, takes, row, topic);
            if self.source(&publication).topic != self.registry.discovery {
                self.on_stamp(event, publication.stamp);
            }
        }
    }

    /// Add a timestamp that the middleware made by the system clock.
    fn on_stamp(&mut self, event: &Event, stamp: i64) {
        if stamp != NEVER {
            let host = self.identity.host(event.process);
            self.offsets.on_stamp(host, event.time, stamp);
        }
    }

    fn on_rmw_take(&mut self, event: &Event) {
        if let Some(take) = self.takes.on_rmw_take(event, &self.registry)
            && let Some(row) = self.takes.rows.get(take)
        {
            let topic = self.registry.topic_at(row.subscription);
            let (takes, sent) = (&mut self.takes.rows, &mut self.publications.rows);
            self.matches.on_take(takes, sent, (take, row), topic);
        }
    }

    /// Return the ring buffer of an event.
    fn ring_buffer(&self, event: &Event) -> Maybe<RingBuffer> {
        let (kind, handle) = (HandleKind::RingBuffer, event.get(0));
        self.registry
            .object(kind, event.process, handle, event.time)
    }

    /// Return the process of a thread.
    pub(crate) fn process(&self, thread: Id<Thread>) -> Maybe<Process> {
        self.identity.process(thread)
    }

    /// Number publications in the order of their first events again.
    pub(crate) fn renumber(&mut self) {
        let nothing = Rows::on(self.disk.as_ref());
        let rows = std::mem::replace(&mut self.publications.rows, nothing);
        let mut order: Vec<(i64, i64, Id<Publication>)> = rows
            .iter()
            .map(|(row, sent)| (sent.publish, self.identity.number(sent.thread), row))
            .collect();
        order.sort_unstable();
        let mut moved: Vec<Maybe<Publication>> = vec![None; rows.count() as usize];
        for (.., from) in &order {
            if let Some(row) = rows.get(*from) {
                moved[from.place()] = self.publications.rows.push(row);
            }
        }
        for number in self.ring_buffers.rows.ids() {
            if let Some(row) = self.ring_buffers.rows.edit(number) {
                row.message = row.message.and_then(|from| moved[from.place()]);
            }
        }
        for messages in self.matches.shared.values_mut() {
            let now = messages.iter().filter_map(|from| moved[from.place()]);
            *messages = now.collect();
        }
    }

    /// Return when a message was taken or, without a take, when its execution began.
    pub(crate) fn taken(&self, take: Maybe<Take>, execution: Maybe<Execution>) -> i64 {
        if let Some(take) = self.takes.rows.get(take) {
            return take.time;
        }
        let execution = self.callbacks.executions.get(execution);
        execution.map_or(NEVER, |execution| execution.start)
    }

    /// Return the process of a subscription.
    pub(crate) fn process_of(&self, subscription: Maybe<Subscription>) -> Maybe<Process> {
        get(&self.registry.subscriptions, subscription)?.process
    }
}
