//! Service calls: one request of one client, at each server that took it.
//!
//! The key of a request is the client's gid (its first 16 bytes) and the sequence number. A response
//! has that key too, and its timestamp tells apart the responses of several servers. Before Kilted
//! only the servers' callbacks were recorded.

use std::collections::{BTreeMap, VecDeque};

use ahash::HashMap;

use crate::callbacks::Execution;
use crate::intake::Event;
use crate::registry::{HandleKind, Registry};
use crate::rows::{NEVER, NONE};

/// Client and sequence number.
type Key = [Option<u64>; 3];

fn whole(key: &Key) -> bool {
    key.iter().all(Option::is_some)
}

/// What one side sent or took.
#[derive(Clone)]
struct Side {
    key: Key,
    /// Client or service.
    object: u32,
    time: i64,
    /// When rcl was called to send it, or `NEVER`.
    called: i64,
    process: u32,
    /// What the middleware stamped a response with.
    stamp: Option<i64>,
    /// What sent a request.
    within: u32,
    /// What served it.
    execution: u32,
}

/// A call; rows of the two sides, `NONE` where there is none.
#[derive(Clone, Copy)]
struct Joined {
    requested: u32,
    taken: u32,
    sent: u32,
}

/// A call, as far as it is known.
#[derive(Clone, Copy)]
pub struct Call {
    /// Its client, or `NONE`.
    pub client: u32,
    /// Its service, or `NONE`.
    pub service: u32,
    /// The process of the service, else of the client, else of whoever told.
    pub process: u32,
    /// Number of the request at its client.
    pub sequence: i64,
    /// Times of request and response, sent and taken, or `NEVER`.
    pub times: [i64; 4],
    /// When rcl was called to send request and response, or `NEVER`.
    pub called: [i64; 2],
    /// When the client's callback began, or `NEVER`.
    pub received: i64,
    /// What sent it.
    pub within: u32,
    /// What served it, or `NONE`.
    pub execution: u32,
}

impl Call {
    /// Whether it was sent, or served, by an end whose init event is missing.
    #[must_use]
    pub const fn nameless(&self) -> bool {
        let [requested, taken, sent, _] = self.times;
        (requested != NEVER && self.client == NONE)
            || ((taken != NEVER || sent != NEVER) && self.service == NONE)
    }
}

/// What clients and servers did.
#[derive(Clone, Default)]
pub struct Services {
    requested: Vec<Side>,
    taken: Vec<Side>,
    sent: Vec<Side>,
    answered: Vec<Side>,
    received: Vec<Side>,
    /// Since when a thread is in a call of rcl, and of which client or service.
    calling: HashMap<u32, (HandleKind, u32, i64)>,
    /// The request that a thread took last, if it has done nothing else since.
    waiting: HashMap<u32, u32>,
}

impl Services {
    /// Whether any of the four events happened.
    #[must_use]
    pub fn happened(&self) -> bool {
        [&self.requested, &self.taken, &self.sent, &self.answered]
            .iter()
            .any(|x| !x.is_empty())
    }

    fn side(event: &Event, process: u32, object: u32, gid: [Option<u64>; 2], key: usize) -> Side {
        Side {
            key: [gid[0], gid[1], event.get(key)],
            object,
            time: event.time,
            called: NEVER,
            process,
            stamp: None,
            within: NONE,
            execution: NONE,
        }
    }

    fn of_client(event: &Event, known: &Registry, process: u32) -> Side {
        let client = known.object(HandleKind::Client, process, event.get(0), event.time);
        let gid = known.gids.get(client as usize).copied().unwrap_or_default();
        Self::side(event, process, client, gid, 1)
    }

    fn of_service(event: &Event, known: &Registry, process: u32) -> Side {
        let service = known.object(HandleKind::Service, process, event.get(0), event.time);
        Self::side(event, process, service, [event.get(1), event.get(2)], 3)
    }

    /// `rcl_send_request`, `rcl_send_response`: the beginning of the call.
    pub fn on_call(&mut self, event: &Event, sort: HandleKind, known: &Registry, process: u32) {
        let object = known.object(sort, process, event.get(0), event.time);
        self.calling
            .insert(event.thread, (sort, object, event.time));
    }

    /// When the call began in which a thread sends something.
    fn called(&mut self, thread: u32, sort: HandleKind, object: u32) -> i64 {
        let call = self.calling.remove(&thread);
        let same = call.filter(|(of, which, _)| (*of, *which) == (sort, object));
        same.map_or(NEVER, |(.., time)| time)
    }

    /// `client_callback_start`.
    pub fn on_client_callback(&mut self, event: &Event, known: &Registry, process: u32) {
        self.received.push(Self::of_client(event, known, process));
    }

    /// `rmw_send_request`.
    pub fn on_send_request(&mut self, event: &Event, known: &Registry, process: u32, within: u32) {
        let side = Self::of_client(event, known, process);
        let called = self.called(event.thread, HandleKind::Client, side.object);
        self.requested.push(Side {
            called,
            within,
            ..side
        });
    }

    /// `rmw_take_request`.
    pub fn on_take_request(&mut self, event: &Event, known: &Registry, process: u32) {
        if event.get(4).is_some_and(|taken| taken != 0) {
            self.waiting.insert(
                event.thread,
                u32::try_from(self.taken.len()).unwrap_or(NONE),
            );
            self.taken.push(Self::of_service(event, known, process));
        }
    }

    /// What a thread does not do between a request and its callback, nor while it sends one.
    pub fn on_other(&mut self, thread: u32) {
        self.waiting.remove(&thread);
        self.calling.remove(&thread);
    }

    /// `callback_start`: it serves what its thread took last, if it is of that service.
    pub fn on_start(&mut self, number: u32, execution: &Execution, known: &Registry) {
        if self.waiting.is_empty() {
            return;
        }
        let Some(taken) = self.waiting.remove(&execution.thread) else {
            return;
        };
        let callback = known.callbacks.get(execution.callback as usize);
        let (kind, owner) = callback.map_or((NONE, NONE), |of| (of.kind, of.owner));
        let side = &mut self.taken[taken as usize];
        let same = owner == side.object || owner == NONE || side.object == NONE;
        // Of a callback that nobody announced nothing tells that it serves anything.
        if kind != NONE && kind == known.service && same {
            side.execution = number;
        }
    }

    /// `rmw_send_response`.
    pub fn on_send_response(&mut self, event: &Event, known: &Registry, process: u32) {
        let side = Self::of_service(event, known, process);
        let stamp = event.signed(4);
        let called = self.called(event.thread, HandleKind::Service, side.object);
        self.sent.push(Side {
            called,
            stamp,
            ..side
        });
    }

    /// `rmw_take_response`.
    pub fn on_take_response(&mut self, event: &Event, known: &Registry, process: u32) {
        if event.get(3).is_some_and(|taken| taken != 0) {
            let side = Self::of_client(event, known, process);
            let stamp = event.signed(2);
            self.answered.push(Side { stamp, ..side });
        }
    }

    /// All calls, in the order of their begins.
    #[must_use]
    pub fn calls(&self, known: &Registry) -> Vec<Call> {
        let sides = [
            &self.requested,
            &self.taken,
            &self.sent,
            &self.answered,
            &self.received,
        ];
        // Of each key what both sides did.
        let mut groups: BTreeMap<Key, [Vec<usize>; 5]> = BTreeMap::new();
        for (side, rows) in sides.iter().enumerate() {
            for (row, one) in rows.iter().enumerate() {
                groups.entry(one.key).or_default()[side].push(row);
            }
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
        let first = |number: u32| {
            if number == NONE {
                -1
            } else {
                i64::from(number)
            }
        };
        calls.sort_by_key(|call| {
            (
                begin(call),
                first(call.service),
                first(call.client),
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
        let number = |row: &usize| u32::try_from(*row).unwrap_or(NONE);
        let call = |requested, taken, sent| Joined {
            requested,
            taken,
            sent,
        };
        let requests = requested.iter().map(|row| call(number(row), NONE, NONE));
        let mut found: Vec<Joined> = requests.collect();
        if !whole(key) {
            found.extend(taken.iter().map(|row| call(NONE, number(row), NONE)));
            found.extend(sent.iter().map(|row| call(NONE, NONE, number(row))));
            return found;
        }
        let first = requested.first().map_or(NONE, number);
        for (place, row) in taken.iter().enumerate() {
            match found.get_mut(place) {
                Some(one) => one.taken = number(row),
                // Another server took it as well.
                None => found.push(call(first, number(row), NONE)),
            }
        }
        let mut open: VecDeque<usize> = (0..found.len()).collect();
        for row in sent {
            let service = Some(self.sent[*row].object);
            let at = |place: &usize| found[*place].taken;
            let by = |place: &usize| Some(self.taken.get(at(place) as usize)?.object);
            let mine = open.iter().position(|place| by(place) == service);
            // A request of which no take was recorded was taken by the service that answered it.
            let mine = mine.or_else(|| open.iter().position(|place| at(place) == NONE));
            match mine.and_then(|place| open.remove(place)) {
                Some(place) => found[place].sent = number(row),
                None => found.push(call(NONE, NONE, number(row))),
            }
        }
        found
    }

    fn call(
        &self,
        key: &Key,
        of: Joined,
        answered: &[usize],
        alone: bool,
        known: &Registry,
    ) -> Call {
        let requested = self.requested.get(of.requested as usize);
        let taken = self.taken.get(of.taken as usize);
        let sent = self.sent.get(of.sent as usize);
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
        let time = |side: Option<&Side>| side.map_or(NEVER, |side| side.time);
        let client = requested.map_or(NONE, |side| side.object);
        let service = taken.or(sent).map_or(NONE, |side| side.object);
        let process = known.services.get(service as usize).map(|of| of.process);
        let process = process.or_else(|| Some(known.clients.get(client as usize)?.process));
        let process = process.or_else(|| Some(taken.or(sent).or(requested)?.process));
        Call {
            client,
            service,
            process: process.unwrap_or(NONE),
            sequence: key[2].map_or(NEVER, u64::cast_signed),
            times: [time(requested), time(taken), time(sent), time(only)],
            called: [requested, sent].map(|side| side.map_or(NEVER, |side| side.called)),
            received: NEVER,
            within: requested.map_or(NONE, |side| side.within),
            execution: taken.map_or(NONE, |side| side.execution),
        }
    }
}
