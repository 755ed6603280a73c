//! Find the topics and publishers of publications and takes, also by facts other than events.

use ahash::HashMap;

use crate::identity::{Host, Process};
use crate::ids::{Maybe, get};
use crate::kinds::{Kind, Kinds};
use crate::model::Model;
use crate::publications::{Guesses, Publication};
use crate::registry::{Name, Publisher};
use crate::rows::{NEVER, known};
use crate::takes::Take;

/// Two hosts.
pub type Hosts = (Maybe<Host>, Maybe<Host>);

/// Facts about a recording that are not in its events.
#[derive(Clone)]
pub struct About {
    /// Kinds of events that were enabled.
    pub enabled: Kinds,
    /// Kinds of events that happened.
    pub happened: Kinds,
    /// How the clocks of hosts were synchronised, as a name.
    pub synchronisation: Maybe<Name>,
    /// From when on a process could publish on one topic only.
    pub guesses: Guesses,
    /// For two hosts: times, and how far apart their clocks may be then, in ns. In between, the
    /// bound is interpolated linearly.
    pub clocks: HashMap<Hosts, Vec<(i64, i64)>>,
}

impl About {
    /// Return by how much a latency between two hosts may be wrong, `NEVER` if it is not known.
    pub(crate) fn clock_bound(&self, from: Maybe<Host>, to: Maybe<Host>, time: i64) -> i64 {
        let Some(bounds) = self.clocks.get(&(from, to)) else {
            return NEVER;
        };
        if let [(_, always)] = bounds[..] {
            return always;
        }
        let next = bounds.partition_point(|(at, _)| *at < time);
        match (bounds.get(next.wrapping_sub(1)), bounds.get(next)) {
            (Some(before), Some(after)) => straight(*before, *after, time),
            (None, Some((at, bound))) if *at == time => *bound,
            _ => NEVER,
        }
    }
}

/// The publisher, topic and node of a publication, once all events are known.
#[derive(Clone, Copy, Default)]
pub struct Source {
    pub publisher: Maybe<Publisher>,
    pub topic: Maybe<Name>,
    pub node: Maybe<Name>,
}

impl Model {
    /// Return by how much a publication may have come sooner or later by the clock of a process.
    pub(crate) fn clocks_apart(&self, sent: &Publication, process: Maybe<Process>) -> i64 {
        let host = |process| self.identity.host(process);
        let (from, to) = (host(self.process(sent.thread)), host(process));
        if from == to {
            return 0;
        }
        known(self.about.clock_bound(from, to, sent.publish)).unwrap_or(i64::MAX)
    }

    /// Return the source of a publication: by address, else by what its process could publish.
    pub(crate) fn source(&self, row: &Publication) -> Source {
        let (about, objects) = (&self.about, &self.registry);
        let process = self.process(row.thread);
        let discovery = objects.discovery;
        let mut source = Source {
            publisher: row.publisher,
            ..Source::default()
        };
        let publisher = get(&objects.publishers, row.publisher);
        if let Some(publisher) = publisher {
            (source.topic, source.node) = (publisher.topic, publisher.node);
        }
        let above = row.rclcpp != NEVER || row.intra != NEVER;
        let rcl = row.rcl != NEVER;
        if about.enabled.has(Kind::RclPublish) && !above && !rcl {
            if publisher.is_none() {
                source.topic = discovery;
            }
        } else if about.enabled.has(Kind::RclPublish) && source.topic == discovery {
            // The message went through rcl, and the init event of rcl's publisher is missing.
            source.topic = None;
        } else if publisher.is_none()
            && rcl
            && !above
            && !row.by_rmw
            && objects.loggers.contains(&process)
        {
            source.topic = objects.rosout;
        }
        // If rcl's events were enabled, one is missing, and so may be the publisher's init event.
        if source.topic.is_none()
            && row.rclcpp != NEVER
            && !rcl
            && !about.enabled.has(Kind::RclPublish)
        {
            let steps = about.guesses.get(&process);
            let steps = steps.map_or(&[][..], Vec::as_slice);
            let after = steps.partition_point(|(since, ..)| *since <= row.publish);
            let last = steps[..after].last();
            (source.topic, source.publisher) =
                last.map_or((None, None), |(_, topic, publisher)| (*topic, *publisher));
            source.node =
                get(&objects.publishers, source.publisher).and_then(|publisher| publisher.node);
        }
        source
    }

    /// Return the topic of a take: the middleware's own takes have no event of rcl.
    pub(crate) fn take_topic(&self, take: &Take) -> Maybe<Name> {
        let registry = &self.registry;
        let subscription = get(&registry.subscriptions, take.subscription);
        let own = subscription.is_none() && take.rcl == NEVER && !take.intra;
        let topic = subscription.and_then(|subscription| subscription.topic);
        if own && self.about.enabled.has(Kind::RclTake) {
            registry.discovery
        } else if take.rcl != NEVER && topic == registry.discovery {
            // rcl took the message, and the init event of rcl's subscription is missing.
            None
        } else {
            topic
        }
    }
}

/// Return the height at `time` of the line between two points, rounded up.
fn straight(before: (i64, i64), after: (i64, i64), time: i64) -> i64 {
    let (length, rise) = (
        i128::from(after.0) - i128::from(before.0),
        i128::from(after.1) - i128::from(before.1),
    );
    if length <= 0 {
        return before.1.max(after.1);
    }
    let part = -(-rise * (i128::from(time) - i128::from(before.0))).div_euclid(length);
    i64::try_from(i128::from(before.1) + part).unwrap_or(NEVER)
}

#[cfg(test)]
mod tests;
