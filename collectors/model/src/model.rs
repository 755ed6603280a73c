//! The state of everything, and what each event does to it.

use std::sync::Arc;

use ahash::HashMap;
use arrow_schema::ArrowError;

use crate::about::{About, Source};
use crate::callbacks::Callbacks;
use crate::gaps::{Continuity, Gaps, Place};
use crate::heap::Heap;
use crate::identity::Identity;
use crate::intake::{Batches, Event, Intake, Kind};
use crate::matches::Matches;
use crate::offsets::Offsets;
use crate::publications::{Publication, Publications};
use crate::registry::{HandleKind, Registry};
use crate::ring_buffers::RingBuffers;
use crate::rows::{Disk, NEVER, NONE, Rows};
use crate::services::Services;
use crate::takes::{Take, Takes};

/// The state of everything, as of the last event.
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
    /// Nothing has happened yet. What does not fit into memory goes to the disk, if there is one;
    /// `keys` messages at least are remembered for who takes them.
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
        let on = disk.as_ref();
        let mut made = Self {
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
        made.callbacks.executions = Rows::on(on);
        made.callbacks.intervals = Rows::on(on);
        made.publications.rows = Rows::on(on);
        made.takes.rows = Rows::on(on);
        made.ring_buffers.rows = Rows::on(on);
        made.heap.blocks = Rows::on(on);
        made.heap.frees = Rows::on(on);
        Self { disk, ..made }
    }

    /// # Errors
    ///
    /// Rows could not be written to the disk, or not read again.
    pub(crate) fn check(&self) -> Result<(), std::io::Error> {
        let failure = self.disk.as_ref().and_then(|disk| disk.failure());
        failure.map_or(Ok(()), Err)
    }

    /// Go through all events, given by name without the provider, each kind in the order of time.
    ///
    /// # Errors
    ///
    /// A batch cannot be had, or rows not be put onto the disk.
    pub fn run(&mut self, events: HashMap<String, Batches>) -> Result<(), ArrowError> {
        let mut intake = Intake::new(events);
        // It is needed by who reads events, and by who is told of them.
        let mut identity = std::mem::replace(&mut self.identity, Identity::new(&[], Vec::new()));
        let mut ends: Vec<i64> = identity.processes.iter().map(|of| of.end).collect();
        let done = intake.visit(&mut identity, |identity, kind, event| {
            let process = identity.process(event.thread);
            if let Some(end) = ends.get_mut(process as usize) {
                *end = event.time.max(*end);
            }
            self.on(kind, event, process, identity);
        });
        // What is fed bit by bit goes on after the last event that was known in the beginning.
        for (of, end) in identity.processes.iter_mut().zip(ends) {
            of.end = end;
        }
        self.identity = identity;
        done?;
        Ok(self.check()?)
    }

    /// The columns that say when and where an event was, as far as they matter.
    #[must_use]
    pub fn context(&self) -> Vec<&'static str> {
        let several = (self.identity.hosts().len() != 1).then_some("host");
        let cpu = (!self.gaps.is_empty()).then_some("cpu_id");
        let always = ["time_ns", "vpid", "vtid", "ctx_pid_ns"];
        always.into_iter().chain(several).chain(cpu).collect()
    }

    /// Nothing that a thread had begun goes on: what ended it, and what began the next one, may be
    /// missing before this event.
    fn cut(&mut self, event: &Event) {
        self.callbacks.cut(event.thread, event.time);
        self.publications.cut(event.thread);
        self.takes.on_other(event.thread);
        self.services.on_other(event.thread);
    }

    /// Something is missing on a thread since another event, unless a gap tells of it already.
    fn on_broken(&mut self, since: i64, event: &Event, process: u32, place: Place) {
        if since != NEVER && !self.gaps.between(place, since, event.time) {
            self.gaps.on_broken(process, since, event.time);
            self.cut(event);
        }
    }

    /// What happened in a process.
    fn on(&mut self, kind: Kind, event: &Event, process: u32, identity: &Identity) {
        self.registry.advance_to(event.time);
        let place = identity.place_of(process);
        let seen = self.continuity.on_event(event, kind.of_ros());
        if !self.gaps.is_empty() && self.gaps.before(place, seen, event) {
            self.cut(event);
        }
        match kind {
            Kind::CallbackStart => self.on_callback_start(event, process),
            Kind::CallbackEnd => {
                if !self.callbacks.on_end(event) {
                    self.on_broken(seen.ros, event, process, place);
                }
                self.takes.on_other(event.thread);
                self.services.on_other(event.thread);
            }
            Kind::Wait | Kind::Ready | Kind::Execute => {
                self.callbacks.on_executor(kind, event);
                self.takes.on_other(event.thread);
                self.services.on_other(event.thread);
            }
            Kind::IntraPublish | Kind::RclcppPublish | Kind::RclPublish => {
                self.on_publish(kind, event, process);
            }
            Kind::RmwPublish => {
                let row = self.on_publish(kind, event, process);
                let (rows, takes) = (&mut self.publications.rows, &mut self.takes.rows);
                if let Some(of) = rows.get(row) {
                    let topic = self.registry.topic(of.publisher);
                    self.matches.on_publish(rows, takes, row, topic);
                    if self.about.source(&self.registry, process, &of).topic
                        != self.registry.discovery
                    {
                        self.on_stamp(place, event, of.stamp);
                    }
                }
            }
            Kind::RmwTake => self.on_rmw_take(event, process),
            Kind::RclTake | Kind::RclcppTake => {
                self.takes.on_taken_above(event, kind == Kind::RclcppTake);
            }
            Kind::Enqueue => {
                let buffer =
                    self.registry
                        .object(HandleKind::RingBuffer, process, event.get(0), event.time);
                let since = self.ring_buffers.out_of_turn(event, process, buffer);
                self.on_broken(since, event, process, place);
                let publications = &mut self.publications;
                self.ring_buffers.on_enqueue(
                    event,
                    &self.registry,
                    (process, place),
                    publications,
                    &self.gaps,
                );
            }
            Kind::Dequeue => self.on_dequeue(event, process, place),
            Kind::Clear => self.ring_buffers.on_clear(event, process),
            Kind::TakeRequest => {
                self.takes.on_other(event.thread);
                self.services
                    .on_take_request(event, &self.registry, process);
            }
            Kind::CallRequest => {
                self.services
                    .on_call(event, HandleKind::Client, &self.registry, process);
            }
            Kind::CallResponse => {
                self.services
                    .on_call(event, HandleKind::Service, &self.registry, process);
            }
            Kind::ClientCallback => {
                self.services
                    .on_client_callback(event, &self.registry, process);
            }
            Kind::SendRequest => {
                let within = self.callbacks.around(event.thread);
                self.services
                    .on_send_request(event, &self.registry, process, within);
            }
            Kind::SendResponse => {
                self.services
                    .on_send_response(event, &self.registry, process);
                self.on_stamp(place, event, event.signed(4).unwrap_or(NEVER));
            }
            Kind::TakeResponse => {
                self.takes.on_other(event.thread);
                self.services.on_other(event.thread);
                self.services
                    .on_take_response(event, &self.registry, process);
            }
            Kind::Malloc
            | Kind::Calloc
            | Kind::Realloc
            | Kind::Memalign
            | Kind::PosixMemalign
            | Kind::Free => {
                let within = self.callbacks.around(event.thread);
                self.heap.on_call(kind, event, process, within);
            }
        }
    }

    fn on_callback_start(&mut self, event: &Event, process: u32) {
        let number = self.callbacks.on_start(event, &self.registry, process);
        if let Some(execution) = self.callbacks.executions.get(number) {
            self.takes.on_start(number, &execution, &self.registry);
            self.services.on_start(number, &execution, &self.registry);
        }
    }

    fn on_publish(&mut self, kind: Kind, event: &Event, process: u32) -> u32 {
        let within = self.callbacks.around(event.thread);
        let row = self
            .publications
            .on_publish(kind, event, &self.registry, process, within);
        for (from, to) in std::mem::take(&mut self.publications.moved) {
            if let Some(of) = self.publications.rows.get(to) {
                let key = (self.registry.topic(of.publisher), of.stamp);
                self.matches.on_move(key, from, to);
            }
        }
        row
    }

    /// The middleware stamped something by the system clock.
    fn on_stamp(&mut self, (host, _): Place, event: &Event, stamp: i64) {
        if stamp != NEVER {
            self.offsets.on_stamp(host, event.time, stamp);
        }
    }

    fn on_rmw_take(&mut self, event: &Event, process: u32) {
        let take = self.takes.on_rmw_take(event, &self.registry, process);
        if let Some(of) = self.takes.rows.get(take) {
            let topic = self.registry.topic_at(of.subscription);
            let (takes, sent) = (&mut self.takes.rows, &mut self.publications.rows);
            self.matches.on_take(takes, sent, take, topic);
        }
    }

    fn on_dequeue(&mut self, event: &Event, process: u32, place: Place) {
        let buffer =
            self.registry
                .object(HandleKind::RingBuffer, process, event.get(0), event.time);
        let of = self.registry.ring_buffers.get(buffer as usize);
        let take = self
            .takes
            .on_dequeue(event, of.map_or(NONE, |of| of.subscription));
        self.ring_buffers
            .on_dequeue(event, (process, place), take, &self.gaps);
    }

    /// The process of a thread.
    pub(crate) fn process(&self, thread: u32) -> u32 {
        self.identity.process(thread)
    }

    /// Number publications in the order of their first events again.
    pub(crate) fn renumber(&mut self) {
        let nothing = self.publications.rows.nothing();
        let rows = std::mem::replace(&mut self.publications.rows, nothing);
        let mut order: Vec<(i64, i64, u32)> = rows
            .iter()
            .map(|(row, of)| (of.publish, self.identity.number(of.thread), row))
            .collect();
        order.sort_unstable();
        let mut place = vec![NONE; order.len()];
        for (to, (.., from)) in (0..).zip(&order) {
            place[*from as usize] = to;
            if let Some(row) = rows.get(*from) {
                self.publications.rows.push(row);
            }
        }
        let moved = |row: u32| place.get(row as usize).copied().unwrap_or(NONE);
        for number in 0..self.ring_buffers.rows.count() {
            if let Some(row) = self.ring_buffers.rows.edit(number) {
                row.message = moved(row.message);
            }
        }
        for message in self.matches.shared.values_mut().flatten() {
            *message = moved(*message);
        }
    }

    /// The topic of a take: see `About::take_topic`.
    pub(crate) fn take_topic(&self, take: &Take) -> u32 {
        self.about.take_topic(&self.registry, take)
    }

    /// What a publication is of: see `About::source`.
    pub(crate) fn source(&self, row: &Publication) -> Source {
        let process = self.process(row.thread);
        self.about.source(&self.registry, process, row)
    }

    /// The process that published a message, or `NONE`.
    pub(crate) fn publishing_process(&self, message: u32) -> u32 {
        let sent = self.publications.rows.get(message);
        sent.map_or(NONE, |of| self.process(of.thread))
    }

    /// The process of a subscription, or `NONE`.
    pub(crate) fn process_of(&self, subscription: u32) -> u32 {
        let of = self.registry.subscriptions.get(subscription as usize);
        of.map_or(NONE, |of| of.process)
    }
}
