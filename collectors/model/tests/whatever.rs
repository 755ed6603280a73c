//! Check that random events in any order never cause a panic, and that the tables do not depend on
//! how little stays in memory.
//!
//! `ROSLENS_FUZZ_SECONDS` sets how long the test goes on; it prints each seed that it tries.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::similar_names,
    reason = "numbers are drawn, and named as the tracer names them"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ahash::HashMap;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{
    ArrayRef, Int32Array, Int64Array, PrimitiveArray, RecordBatch, StringArray, UInt64Array,
};
use roslens_model::{
    About, Batch, Batches, Disk, Gap, Gaps, Id, Identity, KINDS, Kinds, Model, Process, Registry,
    Tables,
};

/// An event: time, vpid, vtid, fields.
type One = (i64, Option<i32>, Option<i32>, Vec<Option<u64>>);
type Happened = Vec<One>;

/// Random numbers (xorshift64*).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Return an address, handle or number: mostly one of a few.
    fn value(&mut self) -> Option<u64> {
        match self.below(40) {
            0 => None,
            1 => Some(self.next()),
            2 => Some([0, 1, u64::MAX, i64::MAX as u64, i64::MIN as u64][self.below(5) as usize]),
            _ => Some(self.below(6)),
        }
    }

    fn time(&mut self, wild: bool) -> i64 {
        if wild && self.once_in(20) {
            return [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX - 1, i64::MAX][self.below(6) as usize];
        }
        self.below(100_000) as i64 * 1_000
    }
}

fn happened(chance: &mut Chance, most: u64, wild: bool) -> BTreeMap<&'static str, Happened> {
    let mut found: BTreeMap<&str, Happened> = BTreeMap::new();
    for _ in 0..chance.below(most) {
        let (_, name, fields) = KINDS[chance.below(KINDS.len() as u64) as usize];
        let time = chance.time(wild);
        let small = |chance: &mut Chance| match chance.below(30) {
            0 => None,
            1 => Some(chance.next() as i32),
            _ => Some(chance.below(3) as i32),
        };
        let (vpid, vtid) = (small(chance), small(chance));
        let mut values: Vec<_> = fields.iter().map(|_| chance.value()).collect();
        for (value, field) in values.iter_mut().zip(fields) {
            if field.ends_with("timestamp") && chance.once_in(2) {
                *value = Some(chance.time(false) as u64);
            }
        }
        found
            .entry(name)
            .or_default()
            .push((time, vpid, vtid, values));
    }
    found
}

fn batch(fields: &[&str], rows: &[One]) -> RecordBatch {
    let mut columns: Vec<(String, ArrayRef)> = vec![
        (
            "time_ns".into(),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0))),
        ),
        (
            "vpid".into(),
            Arc::new(rows.iter().map(|row| row.1).collect::<Int32Array>()),
        ),
        (
            "vtid".into(),
            Arc::new(rows.iter().map(|row| row.2).collect::<Int32Array>()),
        ),
    ];
    for (place, field) in fields.iter().enumerate() {
        // Lists of bytes are not drawn.
        if !field.is_empty() && !field.contains('+') {
            let values: UInt64Array = rows.iter().map(|row| row.3[place]).collect();
            columns.push(((*field).into(), Arc::new(values)));
        }
    }
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true)))
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Make batches of at most `rows` rows.
fn batches(happened: &BTreeMap<&str, Happened>, rows: usize) -> HashMap<String, Batches> {
    let mut found: HashMap<String, Batches> = HashMap::default();
    for (_, name, fields) in KINDS {
        let Some(all) = happened.get(name) else {
            continue;
        };
        let parts: Vec<_> = all
            .chunks(rows)
            .map(|part| Ok(Batch::new(&batch(fields, part), fields)))
            .collect();
        found.insert((*name).to_owned(), Box::new(parts.into_iter()));
    }
    found
}

fn objects(chance: &mut Chance, wild: bool) -> HashMap<String, RecordBatch> {
    let mut found: HashMap<String, RecordBatch> = HashMap::default();
    let tables: &[(&str, &[&str], &[&str])] = &[
        (
            "publishers",
            &["publisher_handle", "created_ns", "ended_ns"],
            &["topic", "node"],
        ),
        (
            "subscriptions",
            &["created_ns", "ended_ns", "queue_depth"],
            &["topic", "node"],
        ),
        (
            "callbacks",
            &["callback", "created_ns", "owner_id"],
            &["kind", "name", "node", "symbol"],
        ),
        (
            "ring_buffers",
            &["buffer", "created_ns", "subscription_id", "publisher_id"],
            &[],
        ),
        (
            "clients",
            &["rmw_client_handle", "created_ns", "gid_low", "gid_high"],
            &["service"],
        ),
        (
            "services",
            &["rmw_service_handle", "created_ns"],
            &["service"],
        ),
        ("timers", &["period_ns"], &[]),
        (
            "publisher_by_rmw",
            &["rmw_publisher_handle", "since_ns", "publisher_id"],
            &[],
        ),
        (
            "subscription_by_rmw",
            &["rmw_subscription_handle", "since_ns", "subscription_id"],
            &[],
        ),
    ];
    let words = [
        "/a",
        "/b",
        "/b/_action/status",
        "ros_discovery_info",
        "/rosout",
        "subscription",
        "service",
        "timer",
    ];
    for (name, numbers, texts) in tables {
        let rows = chance.below(8);
        let process: Int32Array = (0..rows).map(|_| Some(chance.below(4) as i32)).collect();
        let mut columns: Vec<(&str, ArrayRef)> = vec![("proc", Arc::new(process))];
        for column in *numbers {
            let value = |chance: &mut Chance| match *column {
                "created_ns" | "since_ns" => Some(chance.time(wild) / 20),
                "ended_ns" => Some(chance.time(wild)).filter(|_| chance.once_in(2)),
                "period_ns" => {
                    [None, Some(0), Some(-7), Some(1_000), Some(i64::MAX)][chance.below(5) as usize]
                }
                _ => chance.value().map(u64::cast_signed),
            };
            let values: Int64Array = (0..rows).map(|_| value(chance)).collect();
            columns.push((column, Arc::new(values)));
        }
        for column in *texts {
            let text = |chance: &mut Chance| words.get(chance.below(9) as usize).copied();
            let values: StringArray = (0..rows).map(|_| text(chance)).collect();
            columns.push((column, Arc::new(values)));
        }
        let columns = columns.into_iter().map(|(name, array)| (name, array, true));
        let table = RecordBatch::try_from_iter_with_nullable(columns);
        found.insert(
            (*name).to_owned(),
            table.unwrap_or_else(|error| panic!("{error}")),
        );
    }
    found
}

/// The results of a pass: its counts, and the batches of each table.
#[derive(PartialEq)]
struct Told(Vec<(&'static str, u64)>, Vec<(&'static str, RecordBatch)>);

fn tables(model: Model) -> Told {
    let tables = model.finish().unwrap_or_else(|error| panic!("{error}"));
    let mut found = Vec::new();
    for name in Tables::names() {
        let mut from = 0;
        let made = |from| {
            tables
                .batch(name, None, from)
                .unwrap_or_else(|e| panic!("{e}"))
        };
        while let Some((batch, next)) = made(from) {
            found.push((name, batch));
            from = next;
        }
    }
    Told(tables.counts().numbers, found)
}

/// Check that rows have their numbers, that publications are in order of time (if `sorted`), and
/// that every link refers to a row.
fn check(Told(_, tables): &Told, sorted: bool, seed: u64) {
    let of = |wanted: &'static str, name: &'static str| {
        let batches = tables.iter().filter(move |(table, _)| *table == wanted);
        batches.flat_map(move |(_, batch)| {
            let column = batch
                .column_by_name(name)
                .map(AsArray::as_primitive::<Int64Type>);
            column.into_iter().flat_map(PrimitiveArray::iter)
        })
    };
    for (table, id) in [
        ("callback_instances", "callback_instance_id"),
        ("publications", "message_id"),
        ("takes", "take_id"),
    ] {
        assert!(
            of(table, id).zip(0..).all(|(id, place)| id == Some(place)),
            "{seed} {table}"
        );
        let count = of(table, id).count();
        let there = |link: i64| usize::try_from(link).is_ok_and(|link| link < count);
        for other in [
            "messages",
            "takes",
            "publications",
            "service_calls",
            "one_sided_messages",
        ] {
            assert!(of(other, id).flatten().all(there), "{seed} {other} {id}");
        }
    }
    assert!(
        !sorted || of("publications", "publish_ns").is_sorted(),
        "{seed}"
    );
}

fn made(seed: u64, wild: bool, disk: Option<Disk>, keys: usize) -> Model {
    let mut chance = Chance(seed);
    let processes = (0..4).map(|number| Process {
        host: Id::new(number as u32 / 3),
        namespace: 0,
        vpid: number % 3,
        since: if number == 3 { 50_000_000 } else { i64::MIN },
        end: chance.time(wild),
    });
    let identity = Identity::new(&["one".into(), "two".into()], processes.collect());
    let registry = Registry::new(&objects(&mut chance, wild));
    let mut kinds = |rare: u64| {
        let names = KINDS.iter().filter(|_| !chance.once_in(rare));
        Kinds::named(
            &names
                .map(|(_, name, _)| (*name).to_owned())
                .collect::<Vec<_>>(),
        )
    };
    let about = About {
        enabled: kinds(4),
        happened: kinds(4),
        synchronisation: None,
        guesses: [
            (Id::new(1), vec![(0, Id::new(0), Id::new(0))]),
            (
                Id::new(2),
                vec![(chance.time(wild), Id::new(3), Id::new(77))],
            ),
        ]
        .into_iter()
        .collect(),
        clocks: [(
            (Id::new(0), Id::new(1)),
            vec![(chance.time(wild), chance.time(wild))],
        )]
        .into_iter()
        .collect(),
    };
    let gaps = Gaps::new(&[Gap {
        host: Id::new(0),
        vpid: chance.once_in(2).then_some(1),
        cpu: chance.once_in(2).then_some(0),
        begin: chance.time(wild),
        end: chance.time(wild),
    }]);
    Model::new(identity, registry, about, gaps, disk, keys)
}

fn one(seed: u64, most: u64) -> Told {
    let mut chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let wild = chance.once_in(2);
    let mut events = happened(&mut chance, most, wild);
    let mut plain = made(chance.0, wild, None, 1 << 14);
    if wild {
        // Events come in any order: the pass only has to survive them.
        plain
            .run(batches(&events, 64))
            .unwrap_or_else(|error| panic!("{error}"));
        let found = tables(plain);
        check(&found, false, seed);
        return found;
    }
    for rows in events.values_mut() {
        rows.sort_by_key(|row| row.0);
    }
    plain
        .run(batches(&events, 4_096))
        .unwrap_or_else(|error| panic!("{error}"));
    let file = tempfile().unwrap_or_else(|error| panic!("{error}"));
    let mut spilled = made(chance.0, wild, Some(Disk::new(file, 0)), 1);
    // Feed the events stretch by stretch, in smaller batches.
    for stretch in 0..4_i64 {
        let mut part = events.clone();
        for rows in part.values_mut() {
            rows.retain(|row| row.0 / 25_000_000 == stretch);
        }
        spilled
            .run(batches(&part, 1_000))
            .unwrap_or_else(|error| panic!("{error}"));
    }
    let (whole, parts) = (tables(plain), tables(spilled));
    check(&whole, true, seed);
    assert!(
        whole == parts,
        "seed {seed}: other tables with next to nothing in memory"
    );
    whole
}

/// Return a file that is deleted when it is closed.
fn tempfile() -> std::io::Result<std::fs::File> {
    let place = std::env::temp_dir().join(format!("roslens-rows-{}", std::process::id()));
    let mut options = std::fs::File::options();
    let file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&place)?;
    std::fs::remove_file(place)?;
    Ok(file)
}

#[test]
fn whatever_happens() {
    let seconds = std::env::var("ROSLENS_FUZZ_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(0));
    let (mut seed, mut rows) = (0, BTreeMap::new());
    while seed < 60 || Instant::now() < end {
        println!("seed {seed}");
        for (name, batch) in one(seed, if seed % 16 == 0 { 30_000 } else { 400 }).1 {
            *rows.entry(name).or_insert(0) += batch.num_rows();
        }
        seed += 1;
    }
    println!("{rows:?}");
    assert!(Tables::names().all(|name| rows[name] > 0), "{rows:?}");
}
