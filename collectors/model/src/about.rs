//! What is known of a recording beside its events, and what publications and takes are of by that.

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

/// What is known of a recording beside its events.
#[derive(Clone)]
pub struct About {
    /// Kinds of events that were enabled.
    pub enabled: Kinds,
    /// Kinds of events that happened.
    pub happened: Kinds,
    /// How the clocks of hosts were synchronised, as a name.
    pub synchronisation: Maybe<Name>,
    /// Since when a process could publish on one topic only.
    pub guesses: Guesses,
    /// By two hosts: times, and by how much their clocks may be apart there; at most that between.
    pub clocks: HashMap<Hosts, Vec<(i64, i64)>>,
}

/// What a publication is of, once all is known.
#[derive(Clone, Copy, Default)]
pub struct Source {
    pub publisher: Maybe<Publisher>,
    pub topic: Maybe<Name>,
    pub node: Maybe<Name>,
}

impl Model {
    /// What a publication is of: by address, else by what else its process could publish.
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
            // It went through rcl, of whose publisher the event is missing.
            source.topic = None;
        } else if publisher.is_none()
            && rcl
            && !above
            && !row.by_rmw
            && objects.loggers.contains(&process)
        {
            source.topic = objects.rosout;
        }
        // Where rcl has its events one is missing, and perhaps that of the publisher, too.
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

    /// The topic of a take: the middleware's own have no event of rcl.
    pub(crate) fn take_topic(&self, take: &Take) -> Maybe<Name> {
        let registry = &self.registry;
        let subscription = get(&registry.subscriptions, take.subscription);
        let own = subscription.is_none() && take.rcl == NEVER && !take.intra;
        let topic = subscription.and_then(|subscription| subscription.topic);
        if own && self.about.enabled.has(Kind::RclTake) {
            registry.discovery
        } else if take.rcl != NEVER && topic == registry.discovery {
            // What rcl took is of a subscription of which rcl's event is missing.
            None
        } else {
            topic
        }
    }
}
