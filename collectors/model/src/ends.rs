//! What publications and takes are of, and which subscriptions existed at a time.

use ahash::{HashMap, HashMapExt};

use crate::Model;
use crate::decide::USUAL_WAIT;
use crate::intake::Kind;
use crate::publications::Publication;
use crate::rows::{NEVER, NONE};
use crate::takes::Take;

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

/// Which subscriptions exist as something is published.
pub struct Existing {
    on_topic: HashMap<u32, Vec<u32>>,
    /// Of each the first publication after the last event of its process.
    after: HashMap<u32, i64>,
    /// Of each the publications after its process had gone.
    pub gone: Vec<u64>,
}

impl Existing {
    /// Of these subscriptions.
    pub(crate) fn new(model: &Model, wanted: impl Fn(u32) -> bool) -> Self {
        let mut on_topic: HashMap<u32, Vec<u32>> = HashMap::new();
        for (number, of) in (0..).zip(&model.registry.subscriptions) {
            if of.topic != NONE && of.topic != model.registry.discovery && wanted(number) {
                on_topic.entry(of.topic).or_default().push(number);
            }
        }
        Self {
            on_topic,
            after: HashMap::new(),
            gone: vec![0; model.registry.subscriptions.len()],
        }
    }

    /// Those of a topic at a time, but for those of processes that had gone; times never fall.
    pub(crate) fn at(&mut self, model: &Model, topic: u32, publish: i64, found: &mut Vec<u32>) {
        found.clear();
        for number in self.on_topic.get(&topic).into_iter().flatten() {
            let of = &model.registry.subscriptions[*number as usize];
            if publish < of.created || publish >= of.ended {
                continue;
            }
            let end = model.identity.end(of.process);
            if publish > end {
                // It has gone when more than a second, and more than one publication, follows its
                // last event, and nothing of it may be missing.
                let first = *self.after.entry(*number).or_insert(publish);
                let place = model.identity.place_of(of.process);
                if publish > first.max(end.saturating_add(USUAL_WAIT))
                    && !model.gaps.overlap(place, end, publish)
                {
                    self.gone[*number as usize] += 1;
                    continue;
                }
            }
            found.push(*number);
        }
    }
}

impl Model {
    /// The topic of a take: the middleware's own have no event of rcl.
    pub(crate) fn take_topic(&self, take: &Take) -> u32 {
        let of = self.registry.subscriptions.get(take.subscription as usize);
        let own = of.is_none() && take.rcl == NEVER && !take.intra;
        let topic = of.map_or(NONE, |of| of.topic);
        if own && self.about.enabled.has(Kind::RclTake) {
            self.registry.discovery
        } else if take.rcl != NEVER && topic == self.registry.discovery {
            // What rcl took is of a subscription of which rcl's event is missing.
            NONE
        } else {
            topic
        }
    }

    /// What a publication is of: by address, else by what else its process could publish.
    pub(crate) fn source(&self, row: &Publication) -> Source {
        self.source_in(self.process(row.thread), row)
    }

    /// The same of a publication of this process.
    pub(crate) fn source_in(&self, process: u32, row: &Publication) -> Source {
        let discovery = self.registry.discovery;
        let mut found = Source {
            publisher: row.publisher,
            ..Source::NONE
        };
        let known = self.registry.publishers.get(row.publisher as usize);
        if let Some(of) = known {
            (found.topic, found.node) = (of.topic, of.node);
        }
        let above = row.rclcpp != NEVER || row.intra != NEVER;
        let rcl = row.rcl != NEVER;
        if self.about.enabled.has(Kind::RclPublish) && !above && !rcl {
            if known.is_none() {
                found.topic = discovery;
            }
        } else if self.about.enabled.has(Kind::RclPublish) && found.topic == discovery {
            // It went through rcl, of whose publisher the event is missing.
            found.topic = NONE;
        } else if known.is_none()
            && rcl
            && !above
            && !row.by_rmw
            && self.registry.loggers.contains(&process)
        {
            found.topic = self.registry.rosout;
        }
        // Where rcl has its events one is missing, and perhaps that of the publisher, too.
        if found.topic == NONE
            && row.rclcpp != NEVER
            && !rcl
            && !self.about.enabled.has(Kind::RclPublish)
        {
            let steps = self.about.guesses.get(&process);
            let steps = steps.map_or(&[][..], Vec::as_slice);
            let after = steps.partition_point(|(since, ..)| *since <= row.publish);
            let last = steps[..after].last();
            (found.topic, found.publisher) =
                last.map_or((NONE, NONE), |(_, topic, publisher)| (*topic, *publisher));
            let of = self.registry.publishers.get(found.publisher as usize);
            found.node = of.map_or(NONE, |of| of.node);
        }
        found
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
