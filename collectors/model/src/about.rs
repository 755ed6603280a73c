//! What is known of a recording beside its events, and what publications and takes are of by that.

use ahash::HashMap;

use crate::intake::{Kind, Kinds};
use crate::publications::{Guesses, Publication};
use crate::registry::Registry;
use crate::rows::{NEVER, NONE};
use crate::takes::Take;

/// What is known of a recording beside its events.
#[derive(Clone)]
pub struct About {
    /// Kinds of events that were enabled.
    pub enabled: Kinds,
    /// Kinds of events that happened.
    pub happened: Kinds,
    /// How the clocks of hosts were synchronised, as a name; or `NONE`.
    pub synchronisation: u32,
    /// Since when a process could publish on one topic only.
    pub guesses: Guesses,
    /// By two hosts: times, and by how much their clocks may be apart there; at most that between.
    pub clocks: HashMap<(u32, u32), Vec<(i64, i64)>>,
}

/// What a publication is of, once all is known.
#[derive(Clone, Copy)]
pub struct Source {
    /// Its publisher, or `NONE`.
    pub publisher: u32,
    /// Its topic, as a name, or `NONE`.
    pub topic: u32,
    /// Its node, as a name, or `NONE`.
    pub node: u32,
}

impl Source {
    /// Of no publication.
    pub const NONE: Self = Self {
        publisher: NONE,
        topic: NONE,
        node: NONE,
    };
}

impl About {
    /// The topic of a take: the middleware's own have no event of rcl.
    #[must_use]
    pub fn take_topic(&self, known: &Registry, take: &Take) -> u32 {
        let of = known.subscriptions.get(take.subscription as usize);
        let own = of.is_none() && take.rcl == NEVER && !take.intra;
        let topic = of.map_or(NONE, |of| of.topic);
        if own && self.enabled.has(Kind::RclTake) {
            known.discovery
        } else if take.rcl != NEVER && topic == known.discovery {
            // What rcl took is of a subscription of which rcl's event is missing.
            NONE
        } else {
            topic
        }
    }

    /// What a publication of a process is of: by address, else by what else its process could publish.
    #[must_use]
    pub fn source(&self, objects: &Registry, process: u32, row: &Publication) -> Source {
        let discovery = objects.discovery;
        let mut found = Source {
            publisher: row.publisher,
            ..Source::NONE
        };
        let known = objects.publishers.get(row.publisher as usize);
        if let Some(of) = known {
            (found.topic, found.node) = (of.topic, of.node);
        }
        let above = row.rclcpp != NEVER || row.intra != NEVER;
        let rcl = row.rcl != NEVER;
        if self.enabled.has(Kind::RclPublish) && !above && !rcl {
            if known.is_none() {
                found.topic = discovery;
            }
        } else if self.enabled.has(Kind::RclPublish) && found.topic == discovery {
            // It went through rcl, of whose publisher the event is missing.
            found.topic = NONE;
        } else if known.is_none()
            && rcl
            && !above
            && !row.by_rmw
            && objects.loggers.contains(&process)
        {
            found.topic = objects.rosout;
        }
        // Where rcl has its events one is missing, and perhaps that of the publisher, too.
        if found.topic == NONE && row.rclcpp != NEVER && !rcl && !self.enabled.has(Kind::RclPublish)
        {
            let steps = self.guesses.get(&process);
            let steps = steps.map_or(&[][..], Vec::as_slice);
            let after = steps.partition_point(|(since, ..)| *since <= row.publish);
            let last = steps[..after].last();
            (found.topic, found.publisher) =
                last.map_or((NONE, NONE), |(_, topic, publisher)| (*topic, *publisher));
            let of = objects.publishers.get(found.publisher as usize);
            found.node = of.map_or(NONE, |of| of.node);
        }
        found
    }
}
