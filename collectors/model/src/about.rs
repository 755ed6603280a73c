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
        let mut found = Source {
            publisher: row.publisher,
            ..Source::default()
        };
        let known = get(&objects.publishers, row.publisher);
        if let Some(of) = known {
            (found.topic, found.node) = (of.topic, of.node);
        }
        let above = row.rclcpp != NEVER || row.intra != NEVER;
        let rcl = row.rcl != NEVER;
        if about.enabled.has(Kind::RclPublish) && !above && !rcl {
            if known.is_none() {
                found.topic = discovery;
            }
        } else if about.enabled.has(Kind::RclPublish) && found.topic == discovery {
            // It went through rcl, of whose publisher the event is missing.
            found.topic = None;
        } else if known.is_none()
            && rcl
            && !above
            && !row.by_rmw
            && objects.loggers.contains(&process)
        {
            found.topic = objects.rosout;
        }
        // Where rcl has its events one is missing, and perhaps that of the publisher, too.
        if found.topic.is_none()
            && row.rclcpp != NEVER
            && !rcl
            && !about.enabled.has(Kind::RclPublish)
        {
            let steps = about.guesses.get(&process);
            let steps = steps.map_or(&[][..], Vec::as_slice);
            let after = steps.partition_point(|(since, ..)| *since <= row.publish);
            let last = steps[..after].last();
            (found.topic, found.publisher) =
                last.map_or((None, None), |(_, topic, publisher)| (*topic, *publisher));
            found.node = get(&objects.publishers, found.publisher).and_then(|of| of.node);
        }
        found
    }

    /// The topic of a take: the middleware's own have no event of rcl.
    pub(crate) fn take_topic(&self, take: &Take) -> Maybe<Name> {
        let known = &self.registry;
        let of = get(&known.subscriptions, take.subscription);
        let own = of.is_none() && take.rcl == NEVER && !take.intra;
        let topic = of.and_then(|of| of.topic);
        if own && self.about.enabled.has(Kind::RclTake) {
            known.discovery
        } else if take.rcl != NEVER && topic == known.discovery {
            // What rcl took is of a subscription of which rcl's event is missing.
            None
        } else {
            topic
        }
    }
}
