//! Events in any order, of any object: nothing panics, and what must hold of every row holds.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, UInt64Array};
use roslens_model::{About, Batches, Identity, KINDS, Known, Model, Process};

/// Numbers that follow from the first one (a linear congruence after Knuth).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// Mostly small ones, that meet; now and then any.
    fn value(&mut self) -> u64 {
        match self.below(50) {
            0 => u64::MAX - self.below(3),
            1 => self.0,
            _ => self.below(4),
        }
    }
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
}

/// Three objects of each sort, of handles 0 to 2 in two processes.
fn objects() -> ahash::HashMap<String, RecordBatch> {
    let handles = || -> ArrayRef { Arc::new(UInt64Array::from(vec![0, 1, 2])) };
    let numbers = || -> ArrayRef { Arc::new(Int64Array::from(vec![0, 1, 2])) };
    let times = || -> ArrayRef { Arc::new(Int64Array::from(vec![0, 300, 600])) };
    let processes = || -> ArrayRef { Arc::new(Int32Array::from(vec![0, 1, 0])) };
    let texts = |words: [&str; 3]| -> ArrayRef { Arc::new(StringArray::from(words.to_vec())) };
    let of = |more: Vec<(&'static str, ArrayRef)>| {
        let common = [
            ("proc", processes()),
            ("created_ns", times()),
            ("since_ns", times()),
        ];
        batch(common.into_iter().chain(more).collect())
    };
    let topics = || texts(["/a", "/a", "/b"]);
    let found = [
        (
            "publishers",
            of(vec![("publisher_handle", handles()), ("topic", topics())]),
        ),
        ("subscriptions", of(vec![("topic", topics())])),
        (
            "publisher_by_rmw",
            of(vec![
                ("rmw_publisher_handle", handles()),
                ("publisher_id", numbers()),
            ]),
        ),
        (
            "subscription_by_rmw",
            of(vec![
                ("rmw_subscription_handle", handles()),
                ("subscription_id", numbers()),
            ]),
        ),
        (
            "callbacks",
            of(vec![
                ("callback", handles()),
                ("kind", texts(["subscription", "timer", "service"])),
                ("owner_id", numbers()),
            ]),
        ),
        (
            "ring_buffers",
            of(vec![("buffer", handles()), ("subscription_id", numbers())]),
        ),
        (
            "clients",
            of(vec![
                ("rmw_client_handle", handles()),
                ("service", topics()),
            ]),
        ),
        (
            "services",
            of(vec![
                ("rmw_service_handle", handles()),
                ("service", topics()),
            ]),
        ),
        (
            "timers",
            of(vec![(
                "period_ns",
                Arc::new(Int64Array::from(vec![0, 7, i64::MAX])),
            )]),
        ),
    ];
    found
        .map(|(name, table)| (name.to_owned(), table))
        .into_iter()
        .collect()
}

fn tables(seed: u64) -> HashMap<&'static str, RecordBatch> {
    let mut numbers = Numbers(seed);
    let mut sources: ahash::HashMap<String, Batches> = ahash::HashMap::default();
    for (_, name, fields) in KINDS {
        let rows = 1 + numbers.below(300);
        let mut times: Vec<i64> = (0..rows)
            .map(|_| i64::try_from(numbers.below(1000)).unwrap_or(0))
            .collect();
        // Not every source is in order.
        if numbers.below(4) > 0 {
            times.sort_unstable();
        }
        let mut small = |limit: u64| -> ArrayRef {
            let one = |n: &mut Numbers| {
                i32::try_from(n.below(limit))
                    .ok()
                    .filter(|value| *value != 2)
            };
            Arc::new((0..rows).map(|_| one(&mut numbers)).collect::<Int32Array>())
        };
        let mut columns = vec![("vpid", small(4)), ("vtid", small(5))];
        columns.push(("time_ns", Arc::new(Int64Array::from(times))));
        for field in fields.iter().filter(|field| !field.contains('+')) {
            let value = |n: &mut Numbers| (n.below(20) > 0).then(|| n.value());
            columns.push((
                field,
                Arc::new(
                    (0..rows)
                        .map(|_| value(&mut numbers))
                        .collect::<UInt64Array>(),
                ),
            ));
        }
        sources.insert(
            (*name).to_owned(),
            Box::new(std::iter::once(Ok(batch(columns)))),
        );
    }
    let process = |vpid| Process {
        host: 0,
        namespace: 0,
        vpid,
        since: 0,
        end: 900,
    };
    let identity = Identity::new(&["h0".to_owned()], vec![process(0), process(1)]);
    let about = About {
        rcl_publish: true,
        rcl_take: true,
        rmw_take: true,
        ..About::default()
    };
    let mut model = Model::new(identity, Known::new(&objects()), about);
    model.run(sources).expect("batches are there");
    model.finish().0.into_iter().collect()
}

fn column(table: &RecordBatch, name: &str) -> Int64Array {
    table
        .column_by_name(name)
        .expect(name)
        .as_primitive::<Int64Type>()
        .clone()
}

#[test]
fn anything() {
    for seed in 0..200 {
        let tables = tables(seed);
        for (table, id) in [
            ("callback_instances", "callback_instance_id"),
            ("publications", "message_id"),
            ("takes", "take_id"),
        ] {
            let ids = column(&tables[table], id);
            assert!(
                ids.iter().zip(0..).all(|(id, place)| id == Some(place)),
                "{seed} {table}"
            );
        }
        let sent = column(&tables["publications"], "publish_ns");
        assert!(sent.values().is_sorted(), "{seed}: publications");
        // Each publication has a message, but for the middleware's own; no link leads nowhere.
        let (messages, executions) = (&tables["messages"], tables["callback_instances"].num_rows());
        let ids = column(messages, "message_id");
        assert!(
            ids.iter()
                .flatten()
                .all(|id| usize::try_from(id).is_ok_and(|id| id < sent.len()))
        );
        for name in ["messages", "takes", "publications", "service_calls"] {
            let links = column(&tables[name], "callback_instance_id");
            let there = |id: i64| usize::try_from(id).is_ok_and(|id| id < executions);
            assert!(links.iter().flatten().all(there), "{seed} {name}");
        }
    }
}

#[test]
fn the_same_events_give_the_same_tables() {
    for seed in 0..20 {
        assert_eq!(tables(seed), tables(seed), "{seed}");
    }
}
