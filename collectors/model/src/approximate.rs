//! Partners for messages that no key joins; every row made here is labelled approximate.

use ahash::{HashMap, HashMapExt, HashSet};

use crate::Model;
use crate::messages::{Match, Matched, Source};
use crate::rows::{NEVER, NONE};

/// How long after the event of a publication the middleware stamps it, at most.
const TOLERANCE: i64 = 10_000_000;

/// Guess source timestamps of publications that were recorded without.
///
/// On Humble and Iron `rmw_publish` does not hold it. The middleware stamps a message just after that
/// event. So each timestamp that was taken, and that no publication is known to have got, belongs to
/// the latest publication without one on its topic, at most 10 ms before it; of several timestamps
/// that claim one publication, the nearest keeps it. Event times are wall-clock times as of the start
/// of the trace, source timestamps of the moment.
pub fn estimate(model: &mut Model, sources: &mut [Source]) {
    let mut sent: HashMap<u32, Vec<(i64, u32)>> = HashMap::new();
    for (message, source) in (0..).zip(sources.iter()) {
        let row = &model.publications.rows[message as usize];
        let called = if row.rmw == NEVER { row.rcl } else { row.rmw };
        let topic = source.topic;
        if source.key == NEVER && called != NEVER && topic != NONE && topic != model.known.discovery
        {
            sent.entry(topic).or_default().push((called, message));
        }
    }
    if sent.is_empty() {
        return;
    }
    for rows in sent.values_mut() {
        rows.sort_unstable();
    }
    let mut claims: Vec<_> = model.matches.waiting().collect();
    claims.sort_unstable_by_key(|((topic, stamp), _)| (*stamp, *topic));
    for ((topic, stamp), chain) in claims {
        let rows = sent.get(&topic).map_or(&[][..], Vec::as_slice);
        let after = rows.partition_point(|(called, _)| *called <= stamp);
        if let Some((called, message)) = rows[..after].last()
            && stamp.saturating_sub(*called) <= TOLERANCE
            && let source = &mut sources[*message as usize]
            && !source.estimated
        {
            (source.key, source.estimated) = (stamp, true);
            model.publications.rows[*message as usize].taken = chain;
        }
    }
}

/// Where an init event is missing, a timestamp that is unique in the recording joins alone.
pub fn without_topic(model: &mut Model, sources: &[Source], found: &mut Vec<Matched>) {
    let discovery = model.known.discovery;
    let alone = (0..).zip(&model.takes.rows);
    let alone = alone.filter(|(_, take)| !take.matched && !take.intra && take.stamp != NEVER);
    let alone = alone.map(|(number, _)| (number, model.take_topic(number)));
    let alone: Vec<_> = alone.filter(|(_, topic)| *topic != discovery).collect();
    let nameless = |source: &Source| source.topic == NONE && source.key != NEVER;
    if alone.is_empty()
        || !(sources.iter().any(nameless) || alone.iter().any(|(_, topic)| *topic == NONE))
    {
        return;
    }
    let mut by_time: HashMap<i64, u32> = HashMap::new();
    for (message, source) in (0..).zip(sources) {
        if source.key != NEVER && source.topic != discovery {
            by_time
                .entry(source.key)
                .and_modify(|twice| *twice = NONE)
                .or_insert(message);
        }
    }
    for (take, topic) in alone {
        let stamp = model.takes.rows[take as usize].stamp;
        let message = by_time.get(&stamp).copied().unwrap_or(NONE);
        if let Some(source) = sources.get(message as usize)
            && (source.topic == NONE || topic == NONE)
        {
            found.push(model.joined(message, take, Match::Approximate));
            model.takes.rows[take as usize].matched = true;
        }
    }
}

/// Executions for messages between processes: subscription, start and number.
fn ran(model: &Model) -> impl Iterator<Item = (u32, i64, u32)> {
    let executions = (0..).zip(&model.callbacks.executions);
    executions.filter_map(|(number, execution)| {
        let callback = model.known.callbacks.get(execution.callback as usize)?;
        let own = callback.kind == model.known.subscription && execution.intra == Some(false);
        (own && callback.owner != NONE).then_some((callback.owner, execution.start, number))
    })
}

/// Subscriptions whose callbacks ran though no take of theirs was recorded.
///
/// Middleware does not trace every way of taking: loaned messages are taken without an event up to
/// Kilted, serialized ones in Humble.
pub fn without_takes(model: &Model) -> Vec<u32> {
    let taken = model.takes.rows.iter().filter(|take| !take.intra);
    let taken: HashSet<u32> = taken.map(|take| take.subscription).collect();
    let found: HashSet<u32> = ran(model)
        .map(|(of, ..)| of)
        .filter(|of| !taken.contains(of))
        .collect();
    let mut found: Vec<u32> = found.into_iter().collect();
    found.sort_unstable();
    found
}

/// Publications and callbacks of subscriptions without takes, joined in order for each.
///
/// With as many callbacks as publications the first belongs to the first, if none starts before its
/// publication. Otherwise a callback belongs to the latest publication before it, if no other
/// callback does. Where neither holds for the whole of a subscription, nothing is joined.
pub fn by_order(model: &Model, pairs: &[(u32, u32)], untaken: &[u32]) -> Vec<Matched> {
    let mut found = Vec::new();
    if untaken.is_empty() {
        return found;
    }
    let mut sent: HashMap<u32, Vec<(i64, u32)>> = HashMap::new();
    let mut starts: HashMap<u32, Vec<(i64, u32)>> = HashMap::new();
    for of in untaken {
        sent.insert(*of, Vec::new());
    }
    for (message, of) in pairs {
        let row = &model.publications.rows[*message as usize];
        if let Some(list) = sent.get_mut(of).filter(|_| row.intra == NEVER) {
            list.push((row.publish, *message));
        }
    }
    for (of, start, number) in ran(model) {
        if sent.contains_key(&of) {
            starts.entry(of).or_default().push((start, number));
        }
    }
    for of in untaken {
        let (sent, starts) = (&sent[of], &starts[of]);
        let both = || sent.iter().zip(starts);
        let whole =
            sent.len() == starts.len() && both().all(|((publish, _), (start, _))| start >= publish);
        if whole {
            found.extend(
                both().map(|((_, message), (_, number))| Matched::by_order(*message, *of, *number)),
            );
            continue;
        }
        let mut seen: HashSet<u32> = HashSet::default();
        let latest: Option<Vec<_>> = starts
            .iter()
            .map(|(start, number)| {
                let after = sent.partition_point(|(publish, _)| publish <= start);
                let (_, message) = *sent[..after].last()?;
                seen.insert(message)
                    .then_some(Matched::by_order(message, *of, *number))
            })
            .collect();
        found.extend(latest.into_iter().flatten());
    }
    found
}
