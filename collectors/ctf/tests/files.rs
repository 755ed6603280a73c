//! Check the reading of trace folders with synthetic traces, whose contents follow from their
//! making. What Python reads through the same `Recording` is compared with babeltrace2 in
//! `tests/ctf`.
#![cfg(feature = "files")]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "traces are made here"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type};
use roslens_ctf::losses::LossKind;
use roslens_ctf::stage::{BATCH, Projection};
use roslens_ctf::{Failure, LossRow, Recording, Result, Sink, Want, open};

const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := uint8_t;
typealias integer { size = 32; align = 8; } := uint32_t;
typealias integer { size = 64; align = 8; } := uint64_t;
trace {
    major = 1; minor = 8; byte_order = le;
    uuid = "00010203-0405-0607-0809-0a0b0c0d0e0f";
    packet.header := struct {
        uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; uint64_t stream_instance_id;
    };
};
env { domain = "ust"; hostname = "HOST"; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := time_t;
stream {
    id = 0;
    packet.context := struct {
        time_t timestamp_begin; time_t timestamp_end; uint64_t content_size; uint64_t packet_size;
        uint64_t packet_seq_num; uint64_t events_discarded; uint32_t cpu_id;
    };
    event.header := struct { uint8_t id; time_t timestamp; };
    event.context := struct {
        integer { size = 32; align = 8; signed = true; } vpid; string procname;
    };
};
event { name = "p:a"; id = 0; stream_id = 0; fields := struct { uint32_t n; }; };
event { name = "p:A"; id = 1; stream_id = 0; fields := struct { uint32_t n; }; };
event { name = "bare/name"; id = 2; stream_id = 0; fields := struct { uint32_t n; }; };
"#;

/// A packet to be written.
struct Packet {
    cpu: u32,
    number: u64,
    discarded: u64,
    begin: u64,
    end: u64,
    /// Time, kind, and the number in the payload.
    events: Vec<(u64, u8, u32)>,
}

impl Packet {
    /// Make a packet whose times are those of its events.
    fn of(cpu: u32, number: u64, events: Vec<(u64, u8, u32)>) -> Self {
        Self {
            cpu,
            number,
            discarded: 0,
            begin: events[0].0,
            end: events[events.len() - 1].0,
            events,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for (time, kind, n) in &self.events {
            body.push(*kind);
            body.extend(time.to_le_bytes());
            body.extend((7 + self.cpu.cast_signed()).to_le_bytes());
            body.extend(format!("name{}\0", n % 3).as_bytes());
            body.extend(n.to_le_bytes());
        }
        let mut bytes = 0xC1FC_1FC1_u32.to_le_bytes().to_vec();
        bytes.extend(0..16);
        bytes.extend(0_u32.to_le_bytes());
        bytes.extend(u64::from(self.cpu).to_le_bytes());
        let size = (4 + 16 + 4 + 8 + 6 * 8 + 4 + body.len() as u64) * 8;
        for word in [
            self.begin,
            self.end,
            size,
            size,
            self.number,
            self.discarded,
        ] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(self.cpu.to_le_bytes());
        bytes.extend(body);
        bytes
    }
}

/// A folder that is deleted when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Write a trace below it, with a stream file per CPU.
    fn trace(&self, below: &str, host: &str, packets: &[Packet]) -> PathBuf {
        let folder = self.0.join(below);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("metadata"), METADATA.replace("HOST", host)).unwrap();
        let mut streams: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        for packet in packets {
            streams
                .entry(packet.cpu)
                .or_default()
                .extend(packet.bytes());
        }
        for (cpu, bytes) in streams {
            fs::write(folder.join(format!("ch_{cpu}")), bytes).unwrap();
        }
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn sample(name: &str) -> PathBuf {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/samples");
    samples.join(name).join("trace")
}

/// Batches by event.
type Read = BTreeMap<String, Vec<RecordBatch>>;

fn read(recording: &Arc<Recording>, want: Want) -> Result<Read> {
    let mut found = Read::new();
    for item in recording.batches(want)? {
        let (name, batch) = item?;
        assert!(0 < batch.num_rows() && batch.num_rows() <= BATCH);
        found.entry(name).or_default().push(batch);
    }
    Ok(found)
}

fn times(batches: &[RecordBatch]) -> Vec<i64> {
    let columns = batches
        .iter()
        .map(|b| b.column(0).as_primitive::<Int64Type>());
    columns.flat_map(|c| c.values().to_vec()).collect()
}

fn numbers(batches: &[RecordBatch]) -> Vec<u32> {
    let columns = batches.iter().map(|b| b.column_by_name("n").unwrap());
    columns
        .flat_map(|c| c.as_primitive::<UInt32Type>().values().to_vec())
        .collect()
}

fn threads(threads: usize) -> Want {
    Want {
        threads,
        ..Want::default()
    }
}

#[test]
fn a_summary_says_what_was_seen() {
    let recording = open(sample("two_process/000_r0_fastrtps")).unwrap();
    let mut batches = recording
        .batches(Want {
            note: true,
            ..Want::default()
        })
        .unwrap();
    assert!(batches.summary().is_none());
    let mut all = Vec::new();
    for item in batches.by_ref() {
        all.extend(times(&[item.unwrap().1]));
    }
    let summary = batches.summary().unwrap();
    let ends = (*all.iter().min().unwrap(), *all.iter().max().unwrap());
    assert_eq!(summary.times(), Some(ends));
    assert_eq!(
        summary.tables.iter().map(|seen| seen.rows).sum::<u64>(),
        18314
    );
    // The processes are a publisher and a subscriber.
    assert_eq!(summary.processes().len(), 2);
    assert!(batches.next().is_none());
}

const EVENTS: u32 = 600_000;

/// Write two streams whose events alternate, long enough for several slices of the time: event `k`
/// is at 1000 ns times `k`, on CPU `k % 2`.
fn long(folder: &Folder) -> Arc<Recording> {
    let mut packets = Vec::new();
    for cpu in 0..2 {
        let mine: Vec<u32> = (0..EVENTS).filter(|k| k % 2 == cpu).collect();
        for (number, part) in mine.chunks(2500).enumerate() {
            let events = part.iter().map(|k| (1000 * u64::from(*k), 0, *k)).collect();
            packets.push(Packet::of(cpu, number as u64, events));
        }
    }
    open(folder.trace("trace", "host", &packets)).unwrap()
}

#[test]
fn threads_change_nothing() {
    let folder = Folder::new("long");
    let recording = long(&folder);
    assert!(recording.files.iter().map(|file| file.bytes).sum::<u64>() > 3 * (4 << 20));
    let made: Vec<u32> = (0..EVENTS).collect();
    let at: Vec<i64> = made.iter().map(|k| 1000 * i64::from(*k)).collect();
    for number in [1, 2, 3] {
        let read = read(&recording, threads(number)).unwrap();
        assert_eq!(read.keys().collect::<Vec<_>>(), ["p:a"]);
        assert_eq!(numbers(&read["p:a"]), made);
        assert_eq!(times(&read["p:a"]), at);
        // The times are within packets, and between the last event of one and the next packet.
        let (begin, end) = (123_456_789, 500_000_500);
        let read = self::read(
            &recording,
            Want {
                begin_ns: Some(begin),
                end_ns: Some(end),
                columns: Projection::Named(vec!["n".into()]),
                ..threads(number)
            },
        )
        .unwrap();
        assert_eq!(read["p:a"][0].num_columns(), 2);
        assert_eq!(numbers(&read["p:a"]), made[123_457..=500_000]);
    }
    let mut told = Vec::new();
    let tell = |done, total| {
        told.push((done, total));
        Ok(())
    };
    let (summary, _) = recording
        .decode(&threads(2), tell, || Some(vec![(); 3]))
        .unwrap();
    assert_eq!(summary.tables[2].rows, u64::from(EVENTS));
    assert!(told.is_sorted());
    let bytes = recording.files.iter().map(|file| file.bytes).sum();
    assert_eq!(told.last(), Some(&(bytes, bytes)));
    // The parts of the time make up the whole, with each event once.
    let parts = recording.windows(None, None, 1 << 20);
    assert!(parts.len() > 10);
    let mut together = Vec::new();
    for (begin_ns, end_ns) in parts {
        let part = Want {
            begin_ns,
            end_ns,
            ..threads(1)
        };
        together.extend(numbers(&self::read(&recording, part).unwrap()["p:a"]));
    }
    assert_eq!(together, made);
}

/// A sink that accepts nothing.
struct Full;

impl Sink for Full {
    fn take(&mut self, _: RecordBatch) -> Result<()> {
        Err(Failure::Output("no space".into()))
    }
}

struct Broken;

impl Sink for Broken {
    fn take(&mut self, _: RecordBatch) -> Result<()> {
        panic!("a defect")
    }
}

#[test]
fn whatever_fails_ends_all_threads() {
    let folder = Folder::new("failing");
    let recording = long(&folder);
    let quiet = |_, _| Ok(());
    let full = || Some((0..3).map(|_| Full).collect());
    let stop = |_, _| Err(Failure::Stopped("enough".into()));
    for number in [1, 2] {
        let failed = recording.decode(&threads(number), quiet, full);
        assert!(matches!(failed, Err(Failure::Output(what)) if what == "no space"));
        let stopped = recording.decode(&threads(number), stop, || Some(vec![(); 3]));
        assert_eq!(stopped.err().unwrap().to_string(), "stopped: enough");
        let panicked = std::panic::catch_unwind(|| {
            let broken = || Some((0..3).map(|_| Broken).collect());
            recording.decode(&threads(number), quiet, broken).is_ok()
        });
        assert!(panicked.is_err());
    }
    // Dropping the iterator early ends the threads, too.
    drop(recording.batches(threads(2)).unwrap());
}

/// Kind and count of a loss, and the times between which it happened.
type Loss = (LossKind, Option<u64>, Option<i64>, Option<i64>);

fn losses(recording: &Recording) -> Vec<Loss> {
    let row = |loss: &LossRow| (loss.kind, loss.count, loss.begin_ns, loss.end_ns);
    recording.losses.iter().map(row).collect()
}

#[test]
fn losses_are_told() {
    let folder = Folder::new("losses");
    let mut packets: Vec<Packet> = [0, 1, 4]
        .into_iter()
        .map(|number| {
            Packet::of(
                0,
                number,
                vec![(100 * number + 10, 0, 1), (100 * number + 20, 0, 2)],
            )
        })
        .collect();
    packets[1].discarded = 6;
    packets[2].discarded = 6;
    let path = folder.trace(".", "host", &packets);
    let recording = open(&path).unwrap();
    assert_eq!(
        losses(&recording),
        [
            (LossKind::DiscardedEvents, Some(6), Some(20), Some(120)),
            (LossKind::LostPackets, Some(2), Some(120), Some(410)),
        ]
    );
    // Cut the stream within the last event.
    let stream = fs::read(path.join("ch_0")).unwrap();
    fs::write(path.join("ch_0"), &stream[..stream.len() - 2]).unwrap();
    let recording = open(&path).unwrap();
    let mut batches = recording.batches(Want::default()).unwrap();
    let rows: usize = batches
        .by_ref()
        .map(|item| item.unwrap().1.num_rows())
        .sum();
    assert_eq!(rows, 5);
    let [lost] = batches.summary().unwrap().losses.as_slice() else {
        panic!("one packet is damaged");
    };
    assert_eq!((lost.kind, lost.count), (LossKind::Truncated, None));
    assert_eq!((lost.begin_ns, lost.end_ns), (Some(410), Some(420)));
    assert!(batches.summary().unwrap().warnings[0].contains("the file ends inside a packet"));
}

/// Write a session of `LTTng` with three CPUs that was stopped at 1 s, without unwanted packets.
fn session(folder: &Folder, domain: &str, wanted: impl Fn(u32, u64) -> bool) -> Vec<LossRow> {
    let ms = |x: u64| x * 1_000_000;
    let packet = |cpu: u32, n: u64| {
        Packet::of(
            cpu,
            n,
            vec![
                (ms(500 * n), 0, 1),
                (ms(500 * n + 499) + u64::from(cpu), 0, 2),
            ],
        )
    };
    let all = (0..3).flat_map(|cpu| (0..2).map(move |n| (cpu, n)));
    let packets: Vec<Packet> = all
        .filter(|(cpu, n)| wanted(*cpu, *n))
        .map(|(cpu, n)| packet(cpu, n))
        .collect();
    let path = folder.trace("s", "host", &packets);
    let text = METADATA.replace("HOST", "host");
    fs::write(
        path.join("metadata"),
        text.replace("domain = \"ust\";", domain),
    )
    .unwrap();
    open(&path).unwrap().losses.clone()
}

const PER_USER: &str =
    r#"domain = "ust"; tracer_name = "lttng-ust"; tracer_buffering_scheme = "uid";"#;
const PER_PROCESS: &str =
    r#"domain = "ust"; tracer_name = "lttng-ust"; tracer_buffering_scheme = "pid";"#;
const KERNEL: &str = r#"domain = "kernel"; tracer_name = "lttng-modules";"#;

#[test]
fn a_session_tells_what_is_missing_of_its_streams() {
    let folder = Folder::new("session");
    let told = |domain, wanted: &dyn Fn(u32, u64) -> bool| {
        let _ = fs::remove_dir_all(folder.0.join("s"));
        let rows = session(&folder, domain, wanted);
        let row = |row: LossRow| (row.kind, row.stream, row.cpu, row.begin_ns, row.end_ns);
        rows.into_iter().map(row).collect::<Vec<_>>()
    };
    let tail = |cpu: u32| {
        let end = 499_000_000 + i64::from(cpu);
        let cpu_of = Some(u64::from(cpu));
        (
            LossKind::MissingTail,
            format!("ch_{cpu}"),
            cpu_of,
            Some(end),
            None,
        )
    };
    let gone = |cpu: u64| {
        (
            LossKind::MissingStream,
            format!("ch_{cpu}"),
            Some(cpu),
            None,
            None,
        )
    };
    for domain in [PER_USER, KERNEL, PER_PROCESS, ""] {
        assert!(told(domain, &|_, _| true).is_empty());
        let ends = matches!(domain, PER_USER | KERNEL);
        let expected: Vec<_> = ends.then(|| tail(1)).into_iter().collect();
        assert_eq!(told(domain, &|cpu, n| (cpu, n) != (1, 1)), expected);
    }
    let head = told(PER_USER, &|cpu, n| (cpu, n) != (2, 0));
    assert_eq!(head.len(), 1);
    assert_eq!(
        (head[0].0, head[0].3, head[0].4),
        (LossKind::MissingHead, None, Some(500_000_000))
    );
    // The kernel has no buffers for CPUs that are offline.
    assert!(told(KERNEL, &|cpu, _| cpu != 1).is_empty());
    assert_eq!(told(PER_USER, &|cpu, _| cpu != 1), [gone(1)]);
    assert_eq!(told(PER_USER, &|cpu, _| cpu == 2), [gone(0), gone(1)]);
}

#[test]
fn events_outside_the_times_of_their_packet_are_sorted() {
    let folder = Folder::new("disorder");
    let mut wrong = Packet::of(0, 0, vec![(500, 0, 3), (100, 0, 1), (900, 0, 4)]);
    wrong.begin = 300;
    let other = Packet::of(1, 0, vec![(200, 0, 2)]);
    let recording = open(folder.trace(".", "host", &[wrong, other])).unwrap();
    for number in [1, 3] {
        let read = read(&recording, threads(number)).unwrap();
        assert_eq!(numbers(&read["p:a"]), [1, 2, 3, 4]);
        assert_eq!(times(&read["p:a"]), [100, 200, 500, 900]);
    }
}

/// A batch that has been handed over cannot be taken back, so an error is the iterator's last item.
#[test]
fn disorder_that_shows_late_ends_a_stream() {
    let folder = Folder::new("late");
    let rows = u64::try_from(BATCH).unwrap() + 100;
    let first = Packet::of(0, 0, (1..=rows).map(|k| (10 * k, 0, 1)).collect());
    let mut second = Packet::of(0, 1, vec![(10 * rows + 50, 0, 2), (5, 0, 0)]);
    second.end = 10 * rows + 60;
    let recording = open(folder.trace(".", "host", &[first, second])).unwrap();
    let mut batches = recording.batches(threads(1)).unwrap();
    assert_eq!(batches.next().unwrap().unwrap().1.num_rows(), BATCH);
    assert!(matches!(batches.next(), Some(Err(Failure::Disorder))));
    assert!(batches.next().is_none());
    assert!(batches.summary().is_none());
    let mut times = Vec::new();
    let tables = || Some(vec![Vec::<RecordBatch>::new(); 3]);
    for batches in recording
        .decode(&threads(1), |_, _| Ok(()), tables)
        .unwrap()
        .1
    {
        times.extend(self::times(&batches));
    }
    assert_eq!(times.len() as u64, rows + 2);
    assert!(times.is_sorted());
}

#[test]
fn folders_are_searched_for_traces() {
    let folder = Folder::new("search");
    let error = open(&folder.0).err().unwrap().to_string();
    assert!(error.contains("no CTF trace here"), "{error}");
    let packets = [Packet::of(0, 0, vec![(10, 0, 1)])];
    folder.trace("b/ust", "host", &packets);
    folder.trace("a", "host", &[]);
    #[cfg(unix)]
    std::os::unix::fs::symlink(&folder.0, folder.0.join("a/back")).unwrap();
    let recording = open(&folder.0).unwrap();
    let labels: Vec<&str> = recording
        .catalog
        .members
        .iter()
        .map(|m| &*m.label)
        .collect();
    assert_eq!(labels, ["a", "b/ust"]);
    fs::write(
        folder.0.join("a/metadata"),
        "/* CTF 1.8 */\ntrace { major = ; };",
    )
    .unwrap();
    let error = open(&folder.0).err().unwrap().to_string();
    assert!(error.contains("a/metadata:2:1: "), "{error}");
    let missing = open(folder.0.join("missing"));
    assert!(matches!(missing, Err(Failure::Input(_))));
}

#[cfg(feature = "parquet")]
mod parquet_files {
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::*;

    fn rows_of(path: &Path) -> (Vec<RecordBatch>, String) {
        let file = fs::File::open(path).unwrap();
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let about = builder
            .metadata()
            .file_metadata()
            .key_value_metadata()
            .unwrap();
        let name = about
            .iter()
            .find(|entry| entry.key == "roslens.event")
            .unwrap();
        let name = name.value.clone().unwrap();
        (
            builder
                .build()
                .unwrap()
                .map(std::result::Result::unwrap)
                .collect(),
            name,
        )
    }

    #[test]
    fn have_names_that_file_systems_tell_apart() {
        let folder = Folder::new("names");
        let events = (0..3).map(|k| (u64::from(k), k, u32::from(k))).collect();
        let recording = open(folder.trace("t", "host", &[Packet::of(0, 0, events)])).unwrap();
        let to = folder.0.join("out");
        let (_, files) = recording.write(&threads(1), &to, |_, _| Ok(())).unwrap();
        let expected = ["ust/bare_name.parquet", "p/A.parquet", "p/a_2.parquet"];
        assert_eq!(files, expected.map(|name| to.join(name)));
        let named = files
            .iter()
            .map(|path| rows_of(path))
            .map(|(rows, name)| (numbers(&rows), name));
        let expected = [(2, "bare/name"), (1, "p:A"), (0, "p:a")];
        assert_eq!(
            named.collect::<Vec<_>>(),
            expected.map(|(n, name)| (vec![n], name.to_owned()))
        );
    }

    #[test]
    fn hold_what_is_read_whatever_the_threads() {
        let folder = Folder::new("whole");
        let recording = long(&folder);
        for number in [1, 2, 3] {
            let written = recording.write(&threads(number), &folder.0.join("out"), |_, _| Ok(()));
            let (summary, files) = written.unwrap();
            assert_eq!(summary.tables[2].rows, u64::from(EVENTS));
            let made: Vec<u32> = (0..EVENTS).collect();
            assert_eq!(numbers(&rows_of(&files[0]).0), made);
        }
    }

    /// Unfinished files are removed.
    #[test]
    fn are_whole_or_not_there() {
        let folder = Folder::new("unfinished");
        let recording = long(&folder);
        let to = folder.0.join("out");
        for number in [1, 2] {
            let mut told = 0;
            let stop = |_, _| {
                told += 1;
                if told > 2 {
                    return Err(Failure::Stopped("enough".into()));
                }
                Ok(())
            };
            let stopped = recording.write(&threads(number), &to, stop);
            assert!(matches!(stopped, Err(Failure::Stopped(_))));
            let left = fs::read_dir(to.join("p")).into_iter().flatten().count();
            assert_eq!(left, 0);
        }
        // A file is in the place of a folder.
        fs::remove_dir_all(&to).unwrap();
        fs::create_dir_all(&to).unwrap();
        fs::write(to.join("p"), "").unwrap();
        let failed = recording.write(&threads(2), &to, |_, _| Ok(()));
        assert!(matches!(failed, Err(Failure::Output(what)) if what.contains("cannot write")));
    }
}
