//! Find which subscriptions existed at a time.

use ahash::{HashMap, HashMapExt, HashSet};

use crate::identity::Process;
use crate::ids::{Id, Maybe, numbered};
use crate::model::Model;
use crate::publications::Publication;
use crate::registry::{Name, Subscription};

/// How long a message may be on its way if no other one of the subscription shows that, in ns; also how
/// long after the last event of a process its subscriptions count as existing.
pub const USUAL_WAIT: i64 = 1_000_000_000;

/// The subscriptions of each topic, to find those that exist when a message is published.
pub struct Existing(HashMap<Id<Name>, Vec<Candidate>>);

/// A subscription of a topic, which may exist.
struct Candidate {
    number: Id<Subscription>,
    /// The time of its process's last event, or `i64::MAX` while a callback of it has not ended.
    end: i64,
    /// The time of the last event on its host.
    host_end: i64,
    /// The time of the first publication after the last event of its process.
    after: Option<i64>,
    /// How many publications came after its process had gone.
    gone: u64,
}

impl Existing {
    /// Take the wanted subscriptions.
    pub(crate) fn new(model: &Model, wanted: impl Fn(Id<Subscription>) -> bool) -> Self {
        let mut on_topic: HashMap<_, Vec<_>> = HashMap::new();
        let identity = &model.identity;
        let host_ends = identity.host_ends();
        // Who is silent because a callback hangs has not gone.
        let running = model.callbacks.running();
        let running: HashSet<Maybe<Process>> = running
            .map(|(_, execution)| model.process(execution.thread))
            .collect();
        for (number, subscription) in numbered(&model.registry.subscriptions) {
            if let Some(topic) = model.registry.topic_at(Some(number))
                && wanted(number)
            {
                let process = subscription.process;
                let runs = running.contains(&process);
                on_topic.entry(topic).or_default().push(Candidate {
                    number,
                    end: if runs {
                        i64::MAX
                    } else {
                        identity.end(process)
                    },
                    host_end: (host_ends.get(&identity.host(process)).copied()).unwrap_or(i64::MAX),
                    after: None,
                    gone: 0,
                });
            }
        }
        Self(on_topic)
    }

    /// Put the subscriptions of a topic at a publication into `existing`, without those of processes
    /// that had gone; the times of publications never decrease.
    pub(crate) fn at(
        &mut self,
        model: &Model,
        topic: Maybe<Name>,
        sent: &Publication,
        existing: &mut Vec<Id<Subscription>>,
    ) {
        existing.clear();
        let candidates = topic.and_then(|topic| self.0.get_mut(&topic));
        for candidate in candidates.into_iter().flatten() {
            let subscription = &model.registry.subscriptions[candidate.number.place()];
            let publish = sent.publish;
            // Between hosts, only what is so whatever the clocks count.
            let apart = model.clocks_apart(sent, subscription.process);
            let earliest = publish.saturating_sub(apart);
            let latest = publish.saturating_add(apart);
            if latest < subscription.created || earliest >= subscription.ended {
                continue;
            }
            let end = candidate.end;
            if earliest > end && latest <= candidate.host_end {
                // A process has gone if more than a second and more than one publication follow its
                // last event, its host was recorded on, and none of its events may be missing.
                let first = *candidate.after.get_or_insert(publish);
                if earliest > first.max(end.saturating_add(USUAL_WAIT))
                    && !model.gaps.overlap(subscription.process, end, latest)
                {
                    candidate.gone += 1;
                    continue;
                }
            }
            existing.push(candidate.number);
        }
    }

    /// Return how many publications came after the process of each subscription had gone, if any.
    pub fn gone(&self) -> Vec<(Id<Subscription>, u64)> {
        let candidates = self.0.values().flatten();
        let counts = candidates.map(|candidate| (candidate.number, candidate.gone));
        let mut counts: Vec<_> = counts.filter(|(_, gone)| *gone > 0).collect();
        counts.sort_unstable();
        counts
    }
}
