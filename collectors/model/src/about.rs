//! Find the topics and publishers of publications and takes, also by facts other than events.

use ahash::HashMap;

use crate::identity::Host;
use crate::ids::{Maybe, get};
use crate::kinds::{Kind, Kinds};
use crate::model::Model;
use crate::publications::{Guesses, Publication};
use crate::registry::{Name, Publisher};
use crate::rows::NEVER;
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

/// The publisher, topic and node of a publication, once all events are known.
#[derive(Clone, Copy, Default)]
pub struct Source {
    pub publisher: Maybe<Publisher>,
    pub topic: Maybe<Name>,
    pub node: Maybe<Name>,
}

impl Model {
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
