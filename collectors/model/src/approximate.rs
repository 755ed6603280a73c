//! Find partners for messages that no key joins; every row made here is labelled approximate.

use std::collections::BTreeMap;

use ahash::{HashMap, HashMapExt, HashSet};

use crate::callbacks::Execution;
use crate::decide::Reason;
use crate::existing::Existing;
use crate::ids::{Id, Maybe, flagged};
use crate::matches::{Key, chains, mark};
use crate::messages::Matched;
use crate::model::Model;
use crate::publications::Publication;
use crate::registry::{Name, Subscription};
use crate::rows::NEVER;
use crate::takes::Take;

/// How long after the event of a publication the middleware gives it a timestamp at most, in ns.
const TOLERANCE: i64 = 10_000_000;

/// Estimate the source timestamps of publications that were recorded without one.
///
/// On Humble and Iron `rmw_publish` does not hold the timestamp, which the middleware makes just
/// after that event. So each timestamp that was taken, and that no publication is known to have,
/// belongs to the latest publication without one on its topic, at most 10 ms before it; of several
/// timestamps that claim one publication, the nearest gets it. Event times follow the monotonic
/// clock from the start of the trace, source timestamps the wall clock.
pub fn estimate(model: &mut Model) {
    if model.publications.stamped == model.publications.rows.count() {
        return;
    }
    let mut sent = Sent::new();
    for (message, row) in model.publications.rows.iter() {
        let called = if row.rmw == NEVER { row.rcl } else { row.rmw };
        if row.stamp != NEVER || called == NEVER {
            continue;
        }
        let topic = model.source(&row).topic;
        if let Some(topic) = topic.filter(|_| topic != model.registry.discovery) {
            sent.entry(topic).or_default().push((called, message));
        }
    }
    if sent.is_empty() {
        return;
    }
    for rows in sent.values_mut() {
        rows.sort_unstable();
    }
    let mut claims: Vec<_> = waiting(model, &sent).into_iter().collect();
    claims.sort_unstable_by_key(|((topic, stamp), _)| (*stamp, *topic));
    for (key, chain) in claims {
        if let Some(message) = claimed(&sent, key)
            && let Some(row) = model.publications.rows.edit(message)
            && !row.estimated
        {
            (row.stamp, row.estimated, row.taken) = (key.1, true, Some(chain));
            mark(&mut model.takes.rows, Some(chain));
        }
    }
}

/// Publications without a timestamp by topic, with their times.
type Sent = HashMap<Id<Name>, Vec<(i64, Id<Publication>)>>;

/// Return the publication among these that a topic and timestamp may belong to.
fn claimed(sent: &Sent, (topic, stamp): Key) -> Maybe<Publication> {
    let rows = sent.get(&topic)?;
    let after = rows.partition_point(|(called, _)| *called <= stamp);
    let (called, message) = rows[..after].last()?;
    (stamp.saturating_sub(*called) <= TOLERANCE).then_some(*message)
}

/// Return the keys that were taken, were not published, and may belong to these publications, each
/// with the chain of its takes.
fn waiting(model: &mut Model, sent: &Sent) -> HashMap<Key, Id<Take>> {
    let rows = model.publications.rows.iter();
    let published: HashSet<Key> = rows
        .filter_map(|(_, row)| Some((model.registry.topic(row.publisher)?, row.stamp)))
        .filter(|key| claimed(sent, *key).is_some())
        .collect();
    chains(&mut model.takes.rows, &model.registry, |key| {
        claimed(sent, *key).is_some() && !published.contains(key)
    })
}

/// If an init event is missing, join by the timestamp alone if it is unique in the recording.
pub fn without_topic(model: &mut Model, partners: &mut Vec<Matched>) {
    let discovery = model.registry.discovery;
    let alone = model.takes.rows.iter();
    let alone = alone.filter(|(_, take)| !take.matched && !take.intra && take.stamp != NEVER);
    let alone = alone.map(|(number, take)| (number, model.take_topic(&take)));
    let alone: Vec<_> = alone.filter(|(_, topic)| *topic != discovery).collect();
    if alone.is_empty() {
        return;
    }
    let sent = || {
        let stamped = model.publications.rows.iter();
        let stamped = stamped.filter(|(_, row)| row.stamp != NEVER);
        stamped.map(|(message, row)| (message, row.stamp, model.source(&row).topic))
    };
    let mut topics = alone.iter().map(|(_, topic)| *topic);
    if topics.all(|topic| topic.is_some()) && sent().all(|(.., topic)| topic.is_some()) {
        return;
    }
    let mut by_time: HashMap<i64, (Maybe<Publication>, Maybe<Name>)> = HashMap::new();
    for (message, stamp, topic) in sent().filter(|(.., topic)| *topic != discovery) {
        by_time
            .entry(stamp)
            .and_modify(|twice| twice.0 = None)
            .or_insert((Some(message), topic));
    }
    for (number, topic) in alone {
        if let Some(take) = model.takes.rows.edit(number)
            && let Some((Some(message), published_on)) = by_time.get(&take.stamp)
            && (published_on.is_none() || topic.is_none())
        {
            take.matched = true;
            partners.push(Matched::new(
                *message,
                (number, take),
                Reason::TimestampAlone,
            ));
        }
    }
}

/// Return the subscriptions whose callbacks ran although no take of theirs was recorded.
///
/// Middleware does not trace every way of taking: loaned messages are taken without an event up to
/// Kilted, serialized ones in Humble.
pub fn without_takes(model: &Model) -> Vec<Id<Subscription>> {
    let ran = model.registry.callbacks.iter().zip(&model.callbacks.ran);
    let ran = ran.filter(|(_, ran)| **ran);
    let owners = ran.filter_map(|(callback, _)| model.registry.subscription_of(callback));
    let untaken = owners.filter(|owner| !flagged(&model.takes.taken_between, Some(*owner)));
    let mut untaken: Vec<_> = untaken.collect();
    untaken.sort_unstable();
    untaken.dedup();
    untaken
}

/// Join publications and callbacks in order, for each subscription without takes.
pub fn by_order(model: &Model, untaken: &[Id<Subscription>]) -> Vec<Matched> {
    if untaken.is_empty() {
        return Vec::new();
    }
    let nothing = |subscription: &Id<Subscription>| (*subscription, (Vec::new(), Vec::new()));
    let mut of_each: BTreeMap<_, (Vec<_>, Vec<_>)> = untaken.iter().map(nothing).collect();
    let mut existing = Existing::new(model, |subscription| untaken.contains(&subscription));
    let mut takers = Vec::new();
    for (message, row) in model.publications.rows.iter() {
        existing.at(model, model.source(&row).topic, &row, &mut takers);
        for subscription in takers.iter().filter(|_| row.intra == NEVER) {
            if let Some((sent, _)) = of_each.get_mut(subscription) {
                sent.push((row.publish, message));
            }
        }
    }
    for (number, row) in model.callbacks.executions.iter() {
        let callback = model.registry.callback(row.callback);
        if row.intra == Some(false)
            && let Some(subscription) = model.registry.subscription_of(&callback)
            && let Some((_, starts)) = of_each.get_mut(&subscription)
        {
            starts.push((row.start, number));
        }
    }
    let mut matched = Vec::new();
    for (subscription, (sent, starts)) in of_each {
        let joined = in_order(&sent, &starts).into_iter();
        matched.extend(joined.map(|(message, execution)| Matched {
            message,
            subscription: Some(subscription),
            take: None,
            execution: Some(execution),
            by: Reason::InOrder,
        }));
    }
    matched
}

/// Return which publications and callbacks of one subscription belong together; both have times.
///
/// If there are as many callbacks as publications, the first belongs to the first and so on, unless
/// one starts before its publication. Otherwise a callback belongs to the latest publication before
/// it, if no other callback does. If neither holds for all callbacks, nothing is joined.
fn in_order(
    sent: &[(i64, Id<Publication>)],
    starts: &[(i64, Id<Execution>)],
) -> Vec<(Id<Publication>, Id<Execution>)> {
    let mut both = sent.iter().zip(starts);
    if sent.len() == starts.len() && both.all(|((publish, _), (start, _))| start >= publish) {
        let both = sent.iter().zip(starts);
        return both.map(|((_, sent), (_, run))| (*sent, *run)).collect();
    }
    let mut seen: HashSet<Id<Publication>> = HashSet::default();
    let latest = starts.iter().map(|(start, number)| {
        let after = sent.partition_point(|(publish, _)| publish <= start);
        let (_, message) = *sent[..after].last()?;
        seen.insert(message).then_some((message, *number))
    });
    latest.collect::<Option<_>>().unwrap_or_default()
}
