//! Open recordings: read the metadata, and find the packets of all stream files by their heads.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::catalog::{Catalog, Member};
use crate::error::Place;
use crate::losses::{Account, LossKind, ended_early, losses};
use crate::lttng_index;
use crate::metadata;
use crate::packet::Head;
use crate::stage::Projection;
use crate::stream_file::{self, Lost, read_at};

use arrow_schema::SchemaRef;

use super::failure::{Failure, Result};

/// One packet in a file.
#[derive(Debug, Clone)]
pub struct Packet {
    /// File, as index into [`Recording::files`].
    pub file: usize,
    /// First byte.
    pub offset: u64,
    /// Number of bytes that are there; fewer than the packet has if the file is truncated.
    pub bytes: u64,
    /// Its head.
    pub head: Head,
    /// First time, in ns.
    pub begin_ns: Option<i64>,
    /// Last time, in ns.
    pub end_ns: Option<i64>,
}

/// One stream file.
#[derive(Debug, Clone)]
pub struct StreamFile {
    /// Where it is.
    pub path: PathBuf,
    /// File name.
    pub name: String,
    /// Trace, as index into the catalog's members.
    pub member: usize,
    /// Its size.
    pub bytes: u64,
}

/// A row of the table `losses`.
#[derive(Debug, Clone)]
pub struct LossRow {
    /// Trace, as index into the catalog's members.
    pub member: usize,
    /// File name.
    pub stream: String,
    /// CPU.
    pub cpu: Option<u64>,
    /// What is missing.
    pub kind: LossKind,
    /// How many events or packets, if that can be known.
    pub count: Option<u64>,
    /// The loss is after this time, in ns.
    pub begin_ns: Option<i64>,
    /// The loss is before this time, in ns.
    pub end_ns: Option<i64>,
}

/// CTF traces, opened as one time line: everything that is known before events are decoded.
#[derive(Debug)]
pub struct Recording {
    /// Tables and plans.
    pub catalog: Catalog,
    /// Stream files.
    pub files: Vec<StreamFile>,
    /// Packets, by trace, stream, and order in the stream.
    pub packets: Vec<Packet>,
    /// Losses found so far.
    pub losses: Vec<LossRow>,
    /// Warnings about the files.
    pub warnings: Vec<String>,
}

/// Largest index file that is read if its stream is smaller.
const MAX_INDEX: u64 = 1 << 20;
/// Largest metadata file that is read.
const MAX_METADATA: u64 = 1 << 30;

impl Recording {
    /// Read the metadata of the traces (path and label) and find all their packets. `clocks` has,
    /// by name or label of a host, times and the nanoseconds to add at them.
    ///
    /// # Errors
    ///
    /// Metadata cannot be read, no stream file can be read, or `clocks` names an unknown host.
    pub fn open(
        traces: &[(PathBuf, String)],
        clocks: &BTreeMap<String, Vec<(i64, i64)>>,
    ) -> Result<Self> {
        let mut members = Vec::new();
        // Machines of the same name are distinguished by their boot.
        let mut hosts: Vec<(Option<String>, Option<String>)> = Vec::new();
        let mut warnings = Vec::new();
        for (path, label) in traces {
            let mut trace = read_metadata(&path.join("metadata"))?;
            for clock in &mut trace.clocks {
                if let Some(years) = clock.leave_out_offset() {
                    let place = if label == "." { "metadata" } else { label };
                    warnings.push(format!(
                        "{place}: the clock '{}' begins {years} years from 1970, and times end in \
                         2262: its offset is left out, so times are since the clock began",
                        clock.name
                    ));
                }
            }
            let hostname = trace.env("hostname").map(str::to_owned);
            let boot = trace.clocks.iter().find_map(|clock| clock.uuid.clone());
            let same = |(name, other): &(_, Option<String>)| {
                *name == hostname && (boot.is_none() || other.is_none() || *other == boot)
            };
            let host = hosts.iter().position(same).unwrap_or_else(|| {
                hosts.push((hostname.clone(), boot));
                hosts.len() - 1
            });
            let by_name = hostname.as_ref().and_then(|name| clocks.get(name));
            let added = by_name.or_else(|| clocks.get(&format!("h{host}")));
            for clock in &mut trace.clocks {
                match added.map(Vec::as_slice) {
                    // A constant only moves the beginning of the clock.
                    Some([(_, ns)]) => clock.shift(*ns),
                    Some(more) => clock.added = more.to_vec(),
                    None => {}
                }
            }
            members.push(Member {
                trace: Arc::new(trace),
                host: format!("h{host}"),
                label: label.clone(),
            });
        }
        for name in clocks.keys() {
            let label = |at: usize| format!("h{at}");
            let known = hosts.iter().any(|(host, _)| host.as_ref() == Some(name))
                || (0..hosts.len()).any(|at| label(at) == *name);
            if !known {
                let labels: Vec<String> = (0..hosts.len()).map(label).collect();
                return Err(Failure::Input(format!(
                    "no host '{name}' in these traces; give its name or one of: {}",
                    labels.join(", ")
                )));
            }
        }
        let mut recording = Self {
            catalog: Catalog::new(members)?,
            files: Vec::new(),
            packets: Vec::new(),
            losses: Vec::new(),
            warnings,
        };
        let mut first_problem = None;
        let mut readable = 0;
        for (member, (folder, _)) in traces.iter().enumerate() {
            let streams = stream_files(folder)?;
            for name in indexed(folder) {
                if !streams.iter().any(|(there, _)| *there == name) {
                    recording.missing(member, &name, folder);
                }
            }
            for (name, path) in streams {
                match recording.scan_file(member, &name, &path) {
                    Ok(found) => readable += usize::from(found),
                    Err(what) => {
                        recording.warn(member, &name, &format!("not read: {what}"));
                        first_problem.get_or_insert(Failure::input(&path, what));
                    }
                }
            }
        }
        if let Some(problem) = first_problem
            && readable == 0
        {
            return Err(problem);
        }
        recording.sort();
        recording.drop_repeated()?;
        recording.account();
        Ok(recording)
    }

    /// Return the names of all declared events, sorted: those of the catalog's tables.
    #[must_use]
    pub fn event_names(&self) -> Vec<&str> {
        let tables = &self.catalog.tables;
        tables.iter().map(|t| t.name.as_str()).collect()
    }

    /// Return the columns of the batches of each table.
    #[must_use]
    pub fn schemas(&self, columns: &Projection) -> Vec<SchemaRef> {
        let tables = self.catalog.tables.iter();
        tables.map(|t| columns.schema(&t.schema)).collect()
    }

    /// Return the log level of each event that has one: the most severe of classes of one name.
    #[must_use]
    pub fn log_levels(&self) -> BTreeMap<&str, i64> {
        let catalog = &self.catalog;
        let mut levels = BTreeMap::new();
        for layout in &catalog.layouts {
            let stream = &catalog.members[layout.member].trace.streams[layout.stream];
            if let Some(level) = stream.events[layout.event].log_level {
                let name = catalog.tables[layout.table].name.as_str();
                let known = levels.entry(name).or_insert(level);
                *known = level.min(*known);
            }
        }
        levels
    }

    /// Return the labels of the hosts, in the order of the traces.
    #[must_use]
    pub fn hosts(&self) -> Vec<&str> {
        let mut hosts: Vec<&str> = Vec::new();
        for member in &self.catalog.members {
            if !hosts.contains(&member.host.as_str()) {
                hosts.push(&member.host);
            }
        }
        hosts
    }

    /// Return the first and last time that the heads of packets state.
    #[must_use]
    pub fn span(&self) -> (Option<i64>, Option<i64>) {
        (
            self.packets.iter().filter_map(|p| p.begin_ns).min(),
            self.packets.iter().filter_map(|p| p.end_ns).max(),
        )
    }

    /// Cut the time from `begin_ns` to `end_ns` into parts of about `bytes` bytes of packets;
    /// return first and last time of each, both included.
    #[must_use]
    pub fn windows(
        &self,
        begin_ns: Option<i64>,
        end_ns: Option<i64>,
        bytes: u64,
    ) -> Vec<(Option<i64>, Option<i64>)> {
        let after = |time: i64| begin_ns.is_none_or(|begin| begin < time);
        let mut begins: Vec<(i64, u64)> = self
            .packets
            .iter()
            .filter(|p| p.end_ns.is_none_or(after))
            .filter_map(|p| Some((p.begin_ns?, p.bytes)))
            .filter(|(time, _)| end_ns.is_none_or(|end| *time <= end))
            .collect();
        begins.sort_unstable();
        let mut spans = Vec::new();
        let mut begin = begin_ns;
        let mut size = 0;
        for (time, more) in begins {
            if size >= bytes && after(time) && begin.is_none_or(|begin| begin < time) {
                spans.push((begin, Some(time - 1)));
                begin = Some(time);
                size = 0;
            }
            size += more;
        }
        spans.push((begin, end_ns));
        spans
    }

    /// Return the name of a stream file in messages.
    #[must_use]
    pub fn place(&self, member: usize, name: &str) -> String {
        match self.catalog.members[member].label.as_str() {
            "." => name.to_owned(),
            label => format!("{label}/{name}"),
        }
    }

    /// Add a warning about a stream file.
    fn warn(&mut self, member: usize, name: &str, what: &str) {
        let place = self.place(member, name);
        self.warnings.push(format!("{place}: {what}"));
    }

    /// Find the packets of a file; return false if it is empty.
    fn scan_file(
        &mut self,
        member: usize,
        name: &str,
        path: &Path,
    ) -> std::result::Result<bool, String> {
        let trace = Arc::clone(&self.catalog.members[member].trace);
        let mut file = File::open(path).map_err(|e| e.to_string())?;
        let size = file.metadata().map_err(|e| e.to_string())?.len();
        let beside = format!("index/{name}.idx");
        let index = match path.parent().map(|folder| folder.join(&beside)) {
            Some(path) if path.is_file() => read_index(&path, size).map(Some),
            _ => Ok(None),
        };
        let (index, fault) = match index {
            Ok(index) => (index, None),
            Err(fault) => (None, Some(fault)),
        };
        let contents = stream_file::find(&trace, &mut file, index.as_deref())?;
        if let Some(fault) = fault.or(contents.index_fault) {
            let why = "the heads of the packets tell all there is";
            self.warn(member, &beside, &format!("not used: {fault}; {why}"));
        }
        let number = self.files.len();
        let first = self.packets.len();
        let ns = |at: Option<(usize, u64)>| {
            at.and_then(|(clock, cycles)| trace.clocks[clock].to_ns(cycles))
        };
        self.packets
            .extend(contents.packets.into_iter().map(|place| Packet {
                file: number,
                offset: place.offset,
                bytes: place.bytes,
                begin_ns: ns(place.head.begin),
                end_ns: ns(place.head.end),
                head: place.head,
            }));
        for lost in contents.lost {
            self.lost(member, name, first, &lost, ns(lost.end));
        }
        if size == 0 {
            return Ok(false);
        }
        self.files.push(StreamFile {
            path: path.to_owned(),
            name: name.to_owned(),
            member,
            bytes: size,
        });
        Ok(true)
    }

    /// Report packets that are missing from a file whose packets begin at `first`.
    fn lost(&mut self, member: usize, name: &str, first: usize, lost: &Lost, end_ns: Option<i64>) {
        let how_many = match (lost.packets, lost.until) {
            (None, _) => "the rest of this file is lost".to_owned(),
            (Some(0), _) => "the packet before it is damaged".to_owned(),
            (Some(count), None) => format!("its last packets, {count}, are lost"),
            (Some(count), Some(_)) => format!("packets lost here: {count}"),
        };
        self.warn(member, name, &format!("{}; {how_many}", lost.what));
        let before = lost.after.map(|at| &self.packets[first + at]);
        let after = lost.until.map(|at| &self.packets[first + at]);
        // A gap in the numbers of packets, which begin at 0, shows the same loss.
        let has_number = |packet: &Packet| packet.head.sequence.is_some();
        let numbered = before.is_none_or(has_number) && after.is_some_and(has_number);
        if numbered || lost.packets == Some(0) {
            return;
        }
        self.losses.push(LossRow {
            member,
            stream: name.to_owned(),
            cpu: before.or(after).and_then(|p| p.head.cpu),
            kind: match lost.packets {
                Some(_) => LossKind::LostPackets,
                None => LossKind::Truncated,
            },
            count: lost.packets,
            begin_ns: before.and_then(|p| p.end_ns),
            end_ns: after.and_then(|p| p.begin_ns).or(end_ns),
        });
    }

    /// Report a stream file that is missing although its index is there.
    fn missing(&mut self, member: usize, name: &str, folder: &Path) {
        let path = folder.join(format!("index/{name}.idx"));
        let bytes = read_index(&path, 0);
        let entries = bytes.and_then(|b| lttng_index::parse(&b).map_err(|e| e.to_string()));
        let trace = &self.catalog.members[member].trace;
        let ns = |cycles: u64| match trace.clocks.as_slice() {
            [clock] => clock.to_ns(cycles),
            _ => None,
        };
        let (count, begin_ns, end_ns, what) = match entries.as_deref() {
            Ok([]) => return,
            Ok(entries @ [first, ..]) => {
                let (last, count) = (entries.last().unwrap_or(first), entries.len() as u64);
                let what = format!("its index tells of {count} packets, all of them lost");
                let begins = first.instance_and_sequence.is_some_and(|(_, n)| n == 0);
                let begin = ns(first.begin).filter(|_| begins);
                (Some(count), begin, ns(last.end), what)
            }
            Err(error) => (None, None, None, format!("its index is no use: {error}")),
        };
        self.warn(
            member,
            name,
            &format!("this stream file is not there; {what}"),
        );
        self.losses.push(LossRow {
            member,
            stream: name.to_owned(),
            cpu: None,
            kind: LossKind::MissingStream,
            count,
            begin_ns,
            end_ns,
        });
    }

    /// Sort the packets by (trace, stream, position): files of one stream follow each other by
    /// time, whatever their names.
    fn sort(&mut self) {
        let Self { packets, files, .. } = self;
        let mut first: BTreeMap<usize, (i64, u64)> = BTreeMap::new();
        for packet in packets.iter() {
            first.entry(packet.file).or_insert((
                packet.begin_ns.unwrap_or(i64::MIN),
                packet.head.sequence.unwrap_or(0),
            ));
        }
        packets.sort_by_key(|p| {
            let instance = p.head.instance.map_or((1, p.file as u64), |i| (0, i));
            (
                files[p.file].member,
                p.head.stream,
                instance,
                first[&p.file],
                p.file,
                p.offset,
            )
        });
    }

    /// Drop packets that an earlier file holds byte for byte: each snapshot repeats those that are
    /// still in the buffers.
    fn drop_repeated(&mut self) -> Result<()> {
        let mut first = HashMap::new();
        let mut repeated: BTreeMap<usize, u64> = BTreeMap::new();
        let mut keep = vec![true; self.packets.len()];
        for (number, packet) in self.packets.iter().enumerate() {
            let member = self.files[packet.file].member;
            let trace = &self.catalog.members[member].trace;
            let class = trace.streams[packet.head.stream].id;
            let (Some(uuid), Some(instance), Some(sequence)) =
                (trace.uuid, packet.head.instance, packet.head.sequence)
            else {
                continue;
            };
            let before = *first
                .entry((uuid, class, instance, sequence))
                .or_insert(number);
            let other = &self.packets[before];
            if other.file != packet.file
                && other.head == packet.head
                && other.bytes == packet.bytes
                && self.bytes_of(other)? == self.bytes_of(packet)?
            {
                keep[number] = false;
                *repeated.entry(member).or_default() += 1;
            }
        }
        let mut keep = keep.into_iter();
        self.packets.retain(|_| keep.next() != Some(false));
        for (member, count) in repeated {
            let label = &self.catalog.members[member].label;
            self.warnings.push(format!(
                "{label}: {count} packets that another part of this recording holds too are \
                 counted once"
            ));
        }
        Ok(())
    }

    fn bytes_of(&self, packet: &Packet) -> Result<Vec<u8>> {
        let path = &self.files[packet.file].path;
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|mut file| read_at(&mut file, packet.offset, packet.bytes, &mut bytes))
            .map_err(|e| Failure::input(path, e))?;
        Ok(bytes)
    }

    /// Find losses from the counters in the heads.
    fn account(&mut self) {
        // Parts of one recording (rotated, or snapshots) share counters although they are
        // several traces: they have the same UUID.
        let mut streams: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (number, packet) in self.packets.iter().enumerate() {
            let member = self.files[packet.file].member;
            let trace = &self.catalog.members[member].trace;
            let class = trace.streams[packet.head.stream].id;
            let key = match (trace.uuid, packet.head.instance) {
                (Some(uuid), Some(instance)) => (Some(uuid), 0, class, (0, instance)),
                (_, Some(instance)) => (None, member, class, (0, instance)),
                _ => (None, member, class, (1, packet.file as u64)),
            };
            streams.entry(key).or_default().push(number);
        }
        for numbers in streams.values_mut() {
            numbers.sort_by_key(|n| (self.packets[*n].begin_ns, *n));
            let accounts: Vec<Account> = numbers
                .iter()
                .map(|n| {
                    let packet = &self.packets[*n];
                    Account {
                        begin_ns: packet.begin_ns,
                        end_ns: packet.end_ns,
                        sequence: packet.head.sequence,
                        discarded: packet.head.discarded,
                    }
                })
                .collect();
            let first = &self.packets[numbers[0]];
            if let Some(missing @ 1..) = first.head.sequence {
                let StreamFile { name, member, .. } = self.files[first.file].clone();
                let what = format!(
                    "begins with packet number {missing}; a snapshot or a rotation of \
                     files left out those before it"
                );
                self.warn(member, &name, &what);
            }
            for loss in losses(&accounts) {
                let packet = &self.packets[numbers[loss.packet]];
                let file = &self.files[packet.file];
                self.losses.push(LossRow {
                    member: file.member,
                    stream: file.name.clone(),
                    cpu: packet.head.cpu,
                    kind: loss.kind,
                    count: Some(loss.count),
                    begin_ns: loss.begin_ns,
                    end_ns: loss.end_ns,
                });
            }
        }
        self.compare(streams.into_values());
    }

    /// Report streams that end before their session was stopped, and missing ones, given the
    /// packets of each stream that is there, in order of time.
    ///
    /// `LTTng` has a stream for each CPU in each channel, and ends them all with a packet when the
    /// session is stopped; except buffers of single processes, which end with their process.
    fn compare(&mut self, streams: impl Iterator<Item = Vec<usize>>) {
        // Streams that end together: CPUs by channel, each with the last packet that is there.
        let mut sessions: BTreeMap<_, BTreeMap<_, BTreeMap<u64, usize>>> = BTreeMap::new();
        for numbers in streams {
            let Some(&last) = numbers.last() else {
                continue;
            };
            let Packet { file, head, .. } = &self.packets[last];
            let Member { trace, host, .. } = &self.catalog.members[self.files[*file].member];
            let of_kernel = trace.env("domain") == Some("kernel");
            let by_cpu = head.cpu.filter(|_| head.cpu == head.instance);
            let is_lttng = trace
                .env("tracer_name")
                .is_some_and(|x| x.starts_with("lttng"));
            let is_whole = of_kernel || trace.env("tracer_buffering_scheme") == Some("uid");
            if let (Some(cpu), true) = (by_cpu, is_lttng && is_whole) {
                let channels = sessions.entry((host.clone(), of_kernel)).or_default();
                let channel = (trace.uuid, trace.streams[head.stream].id);
                channels.entry(channel).or_default().insert(cpu, last);
            }
        }
        for ((_, of_kernel), channels) in sessions {
            let cpus_there = channels.values().flat_map(BTreeMap::keys).copied();
            // User space has buffers for all possible CPUs, the kernel for those that are online.
            let cpus: BTreeSet<u64> = if of_kernel {
                cpus_there.collect()
            } else {
                (0..=cpus_there.max().unwrap_or(0)).collect()
            };
            for streams in channels.values() {
                self.gone(streams, &cpus);
            }
            let mut together: BTreeMap<_, Vec<(usize, i64)>> = BTreeMap::new();
            for ((uuid, _), streams) in channels {
                let ends = streams
                    .into_values()
                    .filter_map(|last| Some((last, self.end(last)?)));
                together.entry(uuid).or_default().extend(ends);
            }
            for ends in together.into_values() {
                self.early(&ends);
            }
        }
    }

    /// Return when the stream with this last packet ends, by its packets or its index; `None` if a
    /// loss at its end is already reported.
    fn end(&self, last: usize) -> Option<i64> {
        let packet = &self.packets[last];
        let file = &self.files[packet.file];
        let told = self.losses.iter().filter(|row| {
            row.member == file.member
                && row.stream == file.name
                && row.kind != LossKind::MissingHead
        });
        told.map(|row| row.end_ns)
            .try_fold(packet.end_ns?, |last, end| Some(last.max(end?)))
    }

    /// Report the streams that end early among those that end together, by last packets and ends.
    fn early(&mut self, ends: &[(usize, i64)]) {
        let times: Vec<i64> = ends.iter().map(|(_, end)| *end).collect();
        for (at, by) in ended_early(&times) {
            let (ms, last) = (by / 1_000_000, ends[at].0);
            let StreamFile { name, member, .. } = self.files[self.packets[last].file].clone();
            let what = format!(
                "ends {ms} ms before other streams of its session; what came then is missing"
            );
            self.warn(member, &name, &what);
            self.losses.push(LossRow {
                member,
                stream: name,
                cpu: self.packets[last].head.cpu,
                kind: LossKind::MissingTail,
                count: None,
                begin_ns: Some(times[at]),
                end_ns: None,
            });
        }
    }

    /// Report the missing streams of a channel, given the last packets, by CPU, of the others.
    fn gone(&mut self, there: &BTreeMap<u64, usize>, cpus: &BTreeSet<u64>) {
        let Some((own, last)) = there.first_key_value() else {
            return;
        };
        let StreamFile { name, member, .. } = self.files[self.packets[*last].file].clone();
        let channel = name.rsplit_once(&format!("_{own}")).map_or(&*name, |x| x.0);
        for cpu in cpus.iter().filter(|cpu| !there.contains_key(cpu)) {
            let stream = format!("{channel}_{cpu}");
            let mut rows = self.losses.iter();
            if rows.any(|row| row.member == member && row.stream == stream) {
                continue; // its index has told
            }
            let what = "no packet of this stream is there, though there are some of other CPUs";
            self.warn(member, &stream, what);
            self.losses.push(LossRow {
                member,
                stream,
                cpu: Some(*cpu),
                kind: LossKind::MissingStream,
                count: None,
                begin_ns: None,
                end_ns: None,
            });
        }
    }
}

fn read_metadata(path: &Path) -> Result<crate::model::Trace> {
    let fail = |e: io::Error| Failure::input(path, e);
    let size = std::fs::metadata(path).map_err(fail)?.len();
    if size > MAX_METADATA {
        return Err(Failure::input(path, "more than 1 GiB of metadata"));
    }
    let bytes = std::fs::read(path).map_err(fail)?;
    metadata::parse(&bytes).map_err(|e| match e.place {
        // As compilers write places: `metadata:LINE:COLUMN: ...`.
        Place::Text { .. } => Failure::Input(format!("{}:{e}", path.display())),
        _ => Failure::input(path, e),
    })
}

/// Return the files of a trace folder that may hold a stream, sorted by name.
fn stream_files(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let fail = |e: io::Error| Failure::input(folder, e);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        if name != "metadata" && !name.starts_with('.') && path.is_file() {
            files.push((name, path));
        }
    }
    files.sort();
    Ok(files)
}

/// Return the names of the streams of which a trace folder has an index, sorted.
fn indexed(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder.join("index")) else {
        return Vec::new();
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let streams = names.filter_map(|name| Some(name.strip_suffix(".idx")?.to_owned()));
    let mut names: Vec<String> = streams.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

/// Read an index file, unless it is too long for that of a stream file of `size` bytes.
fn read_index(path: &Path, size: u64) -> std::result::Result<Vec<u8>, String> {
    let mut file = File::open(path).map_err(|e| e.to_string())?;
    let length = file.metadata().map_err(|e| e.to_string())?.len();
    // Packets are larger than their entries, but the index of a cut stream may be larger than it.
    if length > size.max(MAX_INDEX) {
        return Err(format!("{length} bytes, more than its stream has"));
    }
    let mut bytes = Vec::new();
    read_at(&mut file, 0, length, &mut bytes).map_err(|e| e.to_string())?;
    Ok(bytes)
}
