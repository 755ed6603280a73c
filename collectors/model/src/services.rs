//! Service calls: one request of one client, at each server that took it.
//!
//! The key of a request is the client's gid (its first 16 bytes) and the sequence number. A
//! response has that key too, and its timestamp distinguishes the responses of several servers.
//! Before Kilted only the servers' callbacks were recorded.

use std::collections::BTreeMap;

use ahash::HashMap;

use crate::callbacks::Execution;
use crate::identity::{Process, Thread};
use crate::ids::{Id, Maybe, get, last};
use crate::intake::Event;
use crate::kinds::Kind;
use crate::registry::{Client, HandleKind, Registry, Service};
use crate::rows::NEVER;

/// The gid of the client (two halves of 8 bytes) and the sequence number.
type Key = [Option<u64>; 3];

/// A request or response that a client or service sent, took or received.
#[derive(Clone)]
struct Side {
    key: Key,
    client: Maybe<Client>,
    service: Maybe<Service>,
    time: i64,
    /// When rcl was called to send the message, or `NEVER`.
    called: i64,
    process: Maybe<Process>,
    /// The source timestamp that the middleware gave a response.
    stamp: Option<i64>,
    /// The execution that sent a request.
    within: Maybe<Execution>,
    /// The execution that served a request.
    execution: Maybe<Execution>,
}

impl Side {
    fn new(event: &Event, registry: &Registry, of_client: bool, within: Maybe<Execution>) -> Self {
        let (process, time, handle) = (event.process, event.time, event.get(0));
        let mut side = Self {
            key: [1, 2, 3].map(|field| event.get(field)),
            client: None,
            service: None,
            time,
            called: NEVER,
            process,
            stamp: None,
            within,
            execution: None,
        };
        if of_client {
            side.client = registry.object(HandleKind::Client, process, handle, time);
            let gid = get(&registry.gids, side.client).copied();
            let [low, high] = gid.unwrap_or_default();
            side.key = [low, high, event.get(1)];
        } else {
            side.service = registry.object(HandleKind::Service, process, handle, time);
        }
        side
    }
}

/// The sender of a call of rcl: whether it is a client (else a service), and which one.
type Caller = (bool, Maybe<Client>, Maybe<Service>);

/// A service call, as far as it is known.
#[derive(Clone, Copy)]
pub struct Call {
    pub client: Maybe<Client>,
    pub service: Maybe<Service>,
    /// The process of the service, else of the client, else of the event.
    pub process: Maybe<Process>,
    /// Number of the request at its client.
    pub sequence: i64,
    /// When the request was sent and taken, and the response sent and taken, or `NEVER`.
    pub times: [i64; 4],
    /// When rcl was called to send request and response, or `NEVER`.
    pub called: [i64; 2],
    /// When the client's callback began, or `NEVER`.
    pub received: i64,
    /// The execution that sent the request.
    pub within: Maybe<Execution>,
    /// The execution that served the request.
    pub execution: Maybe<Execution>,
}

impl Call {
    fn new(
        [requested, taken, sent]: Joined<'_>,
        answer: Option<&Side>,
        received: Option<&Side>,
        registry: &Registry,
    ) -> Self {
        let time = |side: Option<&Side>| side.map_or(NEVER, |side| side.time);
        let called = |side: Option<&Side>| side.map_or(NEVER, |side| side.called);
        let client = requested.and_then(|side| side.client);
        let server = taken.or(sent);
        let service = server.and_then(|side| side.service);
        let object = get(&registry.services, service).or_else(|| get(&registry.clients, client));
        let side_process = server.or(requested).and_then(|side| side.process);
        let any = requested.or(server);
        Self {
            client,
            service,
            process: object.map_or(side_process, |object| object.process),
            sequence: any
                .and_then(|side| side.key[2])
                .map_or(NEVER, u64::cast_signed),
            times: [time(requested), time(taken), time(sent), time(answer)],
            called: [called(requested), called(sent)],
            received: time(received),
            within: requested.and_then(|side| side.within),
            execution: taken.and_then(|side| side.execution),
        }
    }

    /// Whether the init event of the client that sent or the service that served it is missing.
    pub const fn nameless(&self) -> bool {
        let [requested, taken, sent, _] = self.times;
        (requested != NEVER && self.client.is_none())
            || ((taken != NEVER || sent != NEVER) && self.service.is_none())
    }
}

/// Indices of the steps of a call in `Services::sides`.
const REQUESTED: usize = 0;
const TAKEN: usize = 1;
const SENT: usize = 2;
const ANSWERED: usize = 3;
const RECEIVED: usize = 4;

/// All requests and responses of clients and services.
#[derive(Clone, Default)]
pub struct Services {
    /// Requests that were sent and taken, responses that were sent and taken, and responses that
    /// clients' callbacks received.
    sides: [Vec<Side>; 5],
    /// Of each thread in a call of rcl: the client or service, and since when.
    calling: HashMap<Id<Thread>, (Caller, i64)>,
    /// Of each thread: the request that it took last, if it has done nothing else since.
    waiting: HashMap<Id<Thread>, usize>,
}

impl Services {
    /// Whether any request or response was sent or taken.
    pub fn happened(&self) -> bool {
        self.sides[..RECEIVED].iter().any(|rows| !rows.is_empty())
    }

    /// Handle any event of a client or service.
    pub fn on_event(
        &mut self,
        kind: Kind,
        event: &Event,
        registry: &Registry,
        within: Maybe<Execution>,
    ) {
        let of_service = [Kind::CallResponse, Kind::TakeRequest, Kind::SendResponse];
        let of_client = !of_service.contains(&kind);
        let mut side = Side::new(event, registry, of_client, within);
        let caller = (of_client, side.client, side.service);
        if matches!(kind, Kind::SendRequest | Kind::SendResponse) {
            let call = self.calling.remove(&event.thread);
            let call = call.filter(|(begun_by, _)| *begun_by == caller);
            side.called = call.map_or(NEVER, |(_, time)| time);
        }
        let (part, taken) = match kind {
            Kind::SendRequest => (REQUESTED, None),
            Kind::TakeRequest => (TAKEN, Some(4)),
            Kind::SendResponse => {
                side.stamp = event.signed(4);
                (SENT, None)
            }
            Kind::TakeResponse => {
                self.on_other(event.thread);
                side.stamp = event.signed(2);
                (ANSWERED, Some(3))
            }
            Kind::ClientCallback => (RECEIVED, None),
            // All other kinds begin a call of rcl.
            _ => {
                self.calling.insert(event.thread, (caller, event.time));
                return;
            }
        };
        if taken.is_some_and(|field| event.get(field).unwrap_or_default() == 0) {
            return;
        }
        if part == TAKEN {
            self.waiting.insert(event.thread, self.sides[TAKEN].len());
        }
        self.sides[part].push(side);
    }

    /// Handle an event that cannot come between a request and its callback, nor in a call of rcl.
    pub fn on_other(&mut self, thread: Id<Thread>) {
        self.waiting.remove(&thread);
        self.calling.remove(&thread);
    }

    /// Handle `callback_start`: the execution serves the request that its thread took last, if the
    /// callback is of that service.
    pub fn on_start(&mut self, number: Id<Execution>, execution: &Execution, registry: &Registry) {
        if self.waiting.is_empty() {
            return;
        }
        let taken = self.waiting.remove(&execution.thread);
        let Some(side) = taken.and_then(|taken| self.sides[TAKEN].get_mut(taken)) else {
            return;
        };
        let callback = registry.callback(execution.callback);
        let owner = registry.service_of(&callback);
        let same = owner == side.service || owner.is_none() || side.service.is_none();
        // Without an init event, nothing shows that a callback serves anything.
        if callback.kind == registry.service && same {
            side.execution = Some(number);
        }
    }

    /// Forget requests and responses from before a time.
    pub fn forget(&mut self, since: i64) {
        let old = self.sides[TAKEN].partition_point(|row| row.time < since);
        self.waiting.retain(|_, row| *row >= old);
        self.waiting.values_mut().for_each(|row| *row -= old);
        for rows in &mut self.sides {
            let old = rows.partition_point(|row| row.time < since);
            rows.drain(..old);
        }
    }

    /// Return all calls, in the order of their first events.
    pub fn calls(&self, registry: &Registry) -> Vec<Call> {
        // What client and services did with each key.
        let mut groups: BTreeMap<Key, [Vec<&Side>; 5]> = BTreeMap::new();
        for (part, rows) in self.sides.iter().enumerate() {
            for side in rows {
                groups.entry(side.key).or_default()[part].push(side);
            }
        }
        let mut calls = Vec::new();
        for (key, group) in &groups {
            let [requested, taken, sent, answered, received] = group;
            if key.iter().all(Option::is_some) {
                let joined = joined(requested, taken, sent);
                let alone = joined.len() == 1;
                for sides in joined {
                    let answer = answer(sides, answered, alone);
                    let received = received.first().copied();
                    calls.push(Call::new(sides, answer, received, registry));
                }
                continue;
            }
            for (part, sides) in group[..ANSWERED].iter().enumerate() {
                for side in sides {
                    let mut alone = Joined::default();
                    alone[part] = Some(side);
                    calls.push(Call::new(alone, None, None, registry));
                }
            }
        }
        calls.sort_by_key(|call| {
            let [requested, taken, sent, _] = call.times;
            let mut times = [requested, taken, sent].into_iter();
            let begin = times.find(|time| *time != NEVER).unwrap_or(NEVER);
            (begin, last(call.service), last(call.client), call.sequence)
        });
        calls
    }
}

/// The request sent, the request taken and the response sent of one call.
type Joined<'a> = [Option<&'a Side>; 3];

/// Return the calls of one key: requests taken belong to requests sent in order.
fn joined<'a>(requested: &[&'a Side], taken: &[&'a Side], sent: &[&'a Side]) -> Vec<Joined<'a>> {
    let requests = requested.iter().map(|side| [Some(*side), None, None]);
    let mut calls: Vec<Joined<'_>> = requests.collect();
    let first = requested.first().copied();
    for (place, side) in taken.iter().enumerate() {
        match calls.get_mut(place) {
            Some(call) => call[1] = Some(side),
            // Another server took the request as well.
            None => calls.push([first, Some(side), None]),
        }
    }
    for side in sent {
        let mine = |[_, taken, sent]: &Joined<'_>| {
            sent.is_none() && taken.is_some_and(|taken| taken.service == side.service)
        };
        // A request without a recorded take was taken by the service that answered it.
        let untaken = |[_, taken, sent]: &Joined<'_>| sent.is_none() && taken.is_none();
        let place = calls.iter().position(mine);
        match place.or_else(|| calls.iter().position(untaken)) {
            Some(place) => calls[place][2] = Some(side),
            None => calls.push([None, None, Some(side)]),
        }
    }
    calls
}

/// Return the response that was taken: by key and timestamp, else by key if one server answered.
fn answer<'a>([.., sent]: Joined<'_>, answered: &[&'a Side], alone: bool) -> Option<&'a Side> {
    let stamp = sent.and_then(|side| side.stamp);
    let mut by_stamp = answered
        .iter()
        .filter(|side| stamp.is_some() && side.stamp == stamp);
    let only = answered.first().filter(|_| alone && answered.len() == 1);
    by_stamp.next().or(only).copied()
}
