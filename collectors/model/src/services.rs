//! Service calls: one request of one client, at each server that took it.
//!
//! The key of a request is the client's gid (its first 16 bytes) and the sequence number. A response
//! has that key too, and its timestamp tells apart the responses of several servers. Before Kilted
//! only the servers' callbacks were recorded.

use std::collections::{BTreeMap, VecDeque};

use ahash::HashMap;

use crate::callbacks::Execution;
use crate::identity::{Process, Thread};
use crate::ids::{Id, Maybe, get, last};
use crate::intake::Event;
use crate::kinds::Kind;
use crate::registry::{Client, HandleKind, Registry, Service};
use crate::rows::NEVER;

/// Client and sequence number.
type Key = [Option<u64>; 3];

fn whole(key: &Key) -> bool {
    key.iter().all(Option::is_some)
}

/// What a client or service sent or took.
#[derive(Clone)]
struct Side<T> {
    key: Key,
    object: Maybe<T>,
    time: i64,
    /// When rcl was called to send it, or `NEVER`.
    called: i64,
    process: Maybe<Process>,
    /// What the middleware stamped a response with.
    stamp: Option<i64>,
    /// What sent a request.
    within: Maybe<Execution>,
    /// What served it.
    execution: Maybe<Execution>,
}

fn keys<T>(rows: &[Side<T>]) -> impl Iterator<Item = (usize, Key)> {
    rows.iter().map(|row| row.key).enumerate()
}

/// Forget rows before a time; returns how many.
fn forget<T>(rows: &mut Vec<Side<T>>, since: i64) -> usize {
    let old = rows.partition_point(|row| row.time < since);
    rows.drain(..old).count()
}

fn time<T>(side: Option<&Side<T>>) -> i64 {
    side.map_or(NEVER, |side| side.time)
}

fn called<T>(side: Option<&Side<T>>) -> i64 {
    side.map_or(NEVER, |side| side.called)
}

/// A call, by the places of what the two sides did.
#[derive(Clone, Copy, Default)]
struct Joined {
    requested: Option<usize>,
    taken: Option<usize>,
    sent: Option<usize>,
}

/// Who is called to send something.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caller {
    Client(Maybe<Client>),
    Service(Maybe<Service>),
}

/// A call, as far as it is known.
#[derive(Clone, Copy)]
pub struct Call {
    pub client: Maybe<Client>,
    pub service: Maybe<Service>,
    /// The process of the service, else of the client, else of whoever told.
    pub process: Maybe<Process>,
    /// Number of the request at its client.
    pub sequence: i64,
    /// Times of request and response, sent and taken, or `NEVER`.
    pub times: [i64; 4],
    /// When rcl was called to send request and response, or `NEVER`.
    pub called: [i64; 2],
    /// When the client's callback began, or `NEVER`.
    pub received: i64,
    /// What sent it.
    pub within: Maybe<Execution>,
    /// What served it.
    pub execution: Maybe<Execution>,
}

impl Call {
    /// Whether it was sent, or served, by an end whose init event is missing.
    pub const fn nameless(&self) -> bool {
        let [requested, taken, sent, _] = self.times;
        (requested != NEVER && self.client.is_none())
            || ((taken != NEVER || sent != NEVER) && self.service.is_none())
    }
}

/// What clients and servers did.
#[derive(Clone, Default)]
pub struct Services {
    requested: Vec<Side<Client>>,
    taken: Vec<Side<Service>>,
    sent: Vec<Side<Service>>,
    answered: Vec<Side<Client>>,
    received: Vec<Side<Client>>,
    /// So many that were taken are forgotten.
    forgotten: usize,
    /// Since when a thread is in a call of rcl, and of which client or service.
    calling: HashMap<Id<Thread>, (Caller, i64)>,
    /// The request that a thread took last, if it has done nothing else since.
    waiting: HashMap<Id<Thread>, usize>,
}

impl Services {
    /// Whether any of the four events happened.
    pub fn happened(&self) -> bool {
        !(self.requested.is_empty()
            && self.taken.is_empty()
            && self.sent.is_empty()
            && self.answered.is_empty())
    }

    fn side<T>(event: &Event, process: Maybe<Process>, object: Maybe<T>, key: Key) -> Side<T> {
        Side {
            key,
            object,
            time: event.time,
            called: NEVER,
            process,
            stamp: None,
            within: None,
            execution: None,
        }
    }

    fn of_client(event: &Event, known: &Registry, process: Maybe<Process>) -> Side<Client> {
        let client = known.object(HandleKind::Client, process, event.get(0), event.time);
        let [low, high] = get(&known.gids, client).copied().unwrap_or_default();
        Self::side(event, process, client, [low, high, event.get(1)])
    }

    fn of_service(event: &Event, known: &Registry, process: Maybe<Process>) -> Side<Service> {
        let service = known.object(HandleKind::Service, process, event.get(0), event.time);
        let key = [event.get(1), event.get(2), event.get(3)];
        Self::side(event, process, service, key)
    }

    /// Any event of a client or service.
    pub fn on_event(
        &mut self,
        kind: Kind,
        event: &Event,
        known: &Registry,
        process: Maybe<Process>,
        within: Maybe<Execution>,
    ) {
        let taken = |field| event.get(field).is_some_and(|taken| taken != 0);
        let client = || Self::of_client(event, known, process);
        let service = || Self::of_service(event, known, process);
        match kind {
            // The beginning of a call of rcl.
            Kind::CallRequest => {
                let call = (Caller::Client(client().object), event.time);
                self.calling.insert(event.thread, call);
            }
            Kind::CallResponse => {
                let call = (Caller::Service(service().object), event.time);
                self.calling.insert(event.thread, call);
            }
            Kind::SendRequest => {
                let side = client();
                let called = self.called(event.thread, Caller::Client(side.object));
                self.requested.push(Side {
                    called,
                    within,
                    ..side
                });
            }
            Kind::TakeRequest if taken(4) => {
                let number = self.forgotten + self.taken.len();
                self.waiting.insert(event.thread, number);
                self.taken.push(service());
            }
            Kind::SendResponse => {
                let (side, stamp) = (service(), event.signed(4));
                let called = self.called(event.thread, Caller::Service(side.object));
                self.sent.push(Side {
                    called,
                    stamp,
                    ..side
                });
            }
            Kind::TakeResponse => {
                self.on_other(event.thread);
                if taken(3) {
                    let stamp = event.signed(2);
                    self.answered.push(Side { stamp, ..client() });
                }
            }
            Kind::ClientCallback => self.received.push(client()),
            _ => {}
        }
    }

    /// When the call began in which a thread sends something.
    fn called(&mut self, thread: Id<Thread>, by: Caller) -> i64 {
        let call = self.calling.remove(&thread);
        let same = call.filter(|(of, _)| *of == by);
        same.map_or(NEVER, |(_, time)| time)
    }

    /// What a thread does not do between a request and its callback, nor while it sends one.
    pub fn on_other(&mut self, thread: Id<Thread>) {
        self.waiting.remove(&thread);
        self.calling.remove(&thread);
    }

    /// `callback_start`: it serves what its thread took last, if it is of that service.
    pub fn on_start(&mut self, number: Id<Execution>, execution: &Execution, known: &Registry) {
        if self.waiting.is_empty() {
            return;
        }
        let Some(taken) = self.waiting.remove(&execution.thread) else {
            return;
        };
        let callback = known.callback(execution.callback);
        let taken = taken.checked_sub(self.forgotten);
        let Some(side) = taken.and_then(|taken| self.taken.get_mut(taken)) else {
            return;
        };
        let owner = known.service_of(&callback);
        let same = owner == side.object || owner.is_none() || side.object.is_none();
        // Of a callback that nobody announced nothing tells that it serves anything.
        if callback.kind == known.service && same {
            side.execution = Some(number);
        }
    }

    /// Forget what was done before a time.
    pub fn forget(&mut self, since: i64) {
        self.forgotten += forget(&mut self.taken, since);
        forget(&mut self.sent, since);
        forget(&mut self.requested, since);
        forget(&mut self.answered, since);
        forget(&mut self.received, since);
    }

    /// All calls, in the order of their begins.
    pub fn calls(&self, known: &Registry) -> Vec<Call> {
        // Of each key what both sides did.
        let mut groups: BTreeMap<Key, [Vec<usize>; 5]> = BTreeMap::new();
        let requested = keys(&self.requested).map(|key| (0, key));
        let taken = keys(&self.taken).map(|key| (1, key));
        let sent = keys(&self.sent).map(|key| (2, key));
        let answered = keys(&self.answered).map(|key| (3, key));
        let received = keys(&self.received).map(|key| (4, key));
        let all = requested.chain(taken).chain(sent);
        for (side, (row, key)) in all.chain(answered).chain(received) {
            groups.entry(key).or_default()[side].push(row);
        }
        let mut calls = Vec::new();
        for (key, [requested, taken, sent, answered, received]) in &groups {
            let joined = self.joined(key, requested, taken, sent);
            let alone = joined.len() == 1;
            for one in joined {
                let call = self.call(key, one, answered, alone, known);
                let callback = received.first().filter(|_| whole(key));
                let received = callback.map_or(NEVER, |row| self.received[*row].time);
                calls.push(Call { received, ..call });
            }
        }
        let begin = |call: &Call| {
            let [requested, taken, sent, _] = call.times;
            [requested, taken, sent]
                .into_iter()
                .find(|time| *time != NEVER)
                .unwrap_or(NEVER)
        };
        calls.sort_by_key(|call| {
            (
                begin(call),
                last(call.service),
                last(call.client),
                call.sequence,
            )
        });
        calls
    }

    /// The calls of one key: of what shares it the first belongs to the first.
    fn joined(
        &self,
        key: &Key,
        requested: &[usize],
        taken: &[usize],
        sent: &[usize],
    ) -> Vec<Joined> {
        let call = |requested, taken, sent| Joined {
            requested,
            taken,
            sent,
        };
        let requests = requested.iter().map(|row| call(Some(*row), None, None));
        let mut found: Vec<Joined> = requests.collect();
        if !whole(key) {
            found.extend(taken.iter().map(|row| call(None, Some(*row), None)));
            found.extend(sent.iter().map(|row| call(None, None, Some(*row))));
            return found;
        }
        let first = requested.first().copied();
        for (place, row) in taken.iter().enumerate() {
            match found.get_mut(place) {
                Some(one) => one.taken = Some(*row),
                // Another server took it as well.
                None => found.push(call(first, Some(*row), None)),
            }
        }
        let mut open: VecDeque<usize> = (0..found.len()).collect();
        for row in sent {
            let service = self.sent[*row].object;
            let at = |place: &usize| found[*place].taken;
            let by = |place: &usize| Some(self.taken[at(place)?].object);
            let mine = open.iter().position(|place| by(place) == Some(service));
            // A request of which no take was recorded was taken by the service that answered it.
            let mine = mine.or_else(|| open.iter().position(|place| at(place).is_none()));
            match mine.and_then(|place| open.remove(place)) {
                Some(place) => found[place].sent = Some(*row),
                None => found.push(call(None, None, Some(*row))),
            }
        }
        found
    }

    fn call(
        &self,
        key: &Key,
        one: Joined,
        answered: &[usize],
        alone: bool,
        known: &Registry,
    ) -> Call {
        let requested = one.requested.map(|row| &self.requested[row]);
        let taken = one.taken.map(|row| &self.taken[row]);
        let sent = one.sent.map(|row| &self.sent[row]);
        let stamp = sent.and_then(|side| side.stamp);
        // By key and timestamp, else by key where one server answered.
        let answers = || {
            answered
                .iter()
                .map(|row| &self.answered[*row])
                .filter(|_| whole(key))
        };
        let by_stamp = stamp.and_then(|_| answers().find(|side| side.stamp == stamp));
        let only = by_stamp.or_else(|| answers().next().filter(|_| alone && answered.len() == 1));
        let client = requested.and_then(|side| side.object);
        let server = taken.or(sent);
        let service = server.and_then(|side| side.object);
        let process = get(&known.services, service).or_else(|| get(&known.clients, client));
        let told = server.map(|side| side.process);
        let told = told.or_else(|| requested.map(|side| side.process));
        let process = process.map(|of| of.process).or(told).flatten();
        Call {
            client,
            service,
            process,
            sequence: key[2].map_or(NEVER, u64::cast_signed),
            times: [time(requested), time(taken), time(sent), time(only)],
            called: [called(requested), called(sent)],
            received: NEVER,
            within: requested.and_then(|side| side.within),
            execution: taken.and_then(|side| side.execution),
        }
    }
}
