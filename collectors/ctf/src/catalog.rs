//! Make the tables of a recording: one per event name, with the columns of all its classes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField, Schema, SchemaRef};

use crate::columns::Kind;
use crate::error::{Error, Result};
use crate::model::{Field, StreamClass, Trace, Type};
use crate::plan::{FlatHeader, Plan, compile, flat_header};

/// Columns that every table begins with; the first four come from packet and trace.
pub const COMMON: [&str; 7] = [
    "time_ns", "host", "trace", "cpu_id", "vpid", "vtid", "procname",
];
/// How many of the common columns no field fills.
pub const GIVEN: usize = 4;

/// One trace, with the labels of its rows.
#[derive(Debug, Clone)]
pub struct Member {
    /// Declarations.
    pub trace: Arc<Trace>,
    /// Label of its host.
    pub host: String,
    /// Its path in the recording.
    pub label: String,
}

/// One event class and the table it goes to.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Trace, as index into [`Catalog::members`].
    pub member: usize,
    /// Stream class, as index into the trace's streams.
    pub stream: usize,
    /// Event class, as index into the stream's events.
    pub event: usize,
    /// Table, as index into [`Catalog::tables`].
    pub table: usize,
    /// How it is decoded.
    pub plan: Plan,
    /// Column of each top-level field of stream context, event context and payload.
    pub targets: [Vec<Option<usize>>; 3],
}

/// One table.
#[derive(Debug, Clone)]
pub struct Table {
    /// Event name.
    pub name: String,
    /// Name and type of each column from [`GIVEN`] on.
    pub columns: Vec<(String, Kind)>,
    /// All columns.
    pub schema: SchemaRef,
}

/// How the events of a stream class are found.
#[derive(Debug, Clone)]
pub struct StreamPlan {
    /// Its usual event header, where that is flat.
    pub header: Option<FlatHeader>,
    /// Numbers of its events, sorted, with their layouts.
    pub events: Vec<(u64, usize)>,
    /// Layout by number of a flat header, `u32::MAX` for none that is flat.
    pub flat: Vec<u32>,
}

impl StreamPlan {
    /// Start without events.
    fn new(stream: &StreamClass) -> Self {
        Self {
            header: flat_header(stream),
            events: Vec::new(),
            flat: Vec::new(),
        }
    }

    /// Sort the events by number, and note those of flat headers.
    fn sort(&mut self, layouts: &[Layout]) {
        self.events.sort_unstable();
        let Some(header) = &self.header else {
            return;
        };
        for (id, layout) in &self.events {
            if (header.low..=header.high).contains(id)
                && let Ok(at @ ..MOST_FLAT) = usize::try_from(*id)
                && matches!(layouts[*layout].plan, Plan::Flat(..))
            {
                self.flat.resize(at + 1, u32::MAX);
                self.flat[at] = u32::try_from(*layout).unwrap_or(u32::MAX);
            }
        }
    }

    /// Return the layout of an event number.
    #[must_use]
    #[inline]
    pub fn layout(&self, id: u64) -> Option<usize> {
        // Most producers count their events from 0.
        match usize::try_from(id).ok().and_then(|at| self.events.get(at)) {
            Some((known, layout)) if *known == id => Some(*layout),
            _ => {
                let at = self.events.binary_search_by_key(&id, |(known, _)| *known);
                Some(self.events[at.ok()?].1)
            }
        }
    }
}

/// Everything that is known before the first packet is read.
#[derive(Debug, Clone)]
pub struct Catalog {
    /// Traces.
    pub members: Vec<Member>,
    /// Tables by event name, sorted.
    pub tables: Vec<Table>,
    /// Event classes.
    pub layouts: Vec<Layout>,
    /// Plans of streams, by trace and stream class.
    pub streams: Vec<Vec<StreamPlan>>,
}

/// Largest number of an event that is found without a search, plus 1.
const MOST_FLAT: usize = 1 << 16;
/// Most columns that a class lacks, summed over all classes of a table: without this limit, the
/// size of a table's description could be the square of that of the declarations.
const EMPTY_CELLS: usize = 1 << 22;

/// Columns of one table while its classes are combined, in order and found by name.
struct Columns {
    list: Vec<(String, Kind)>,
    by_name: HashMap<String, usize>,
    /// How many columns are those of contexts, in which no field of a payload goes.
    contexts: usize,
}

/// Base in which a column's integers are to be shown, and their number of bits.
pub type Shown = (u8, u32);

impl Catalog {
    /// Return by table and column how integers are to be shown, unless they are decimal or several
    /// classes differ.
    #[must_use]
    pub fn shown(&self) -> Vec<HashMap<&str, Shown>> {
        let mut by_table = vec![HashMap::new(); self.tables.len()];
        for layout in &self.layouts {
            let stream = &self.members[layout.member].trace.streams[layout.stream];
            let event = &stream.events[layout.event];
            for (kind, targets) in event.scopes(stream).into_iter().zip(&layout.targets) {
                let fields = kind.map_or(&[][..], Type::fields);
                for (field, target) in fields.iter().zip(targets) {
                    let shown = match &field.kind {
                        Type::Int(int) | Type::VarInt(int) if int.mappings.is_empty() => {
                            (int.base, int.bits)
                        }
                        _ => continue,
                    };
                    if let Some(column) = target {
                        let (name, _) = &self.tables[layout.table].columns[*column];
                        let known = by_table[layout.table].entry(name.as_str()).or_insert(shown);
                        if *known != shown {
                            *known = (10, 64);
                        }
                    }
                }
            }
        }
        for columns in &mut by_table {
            columns.retain(|_, (base, _)| *base != 10);
        }
        by_table
    }

    /// Combine the classes of all traces.
    ///
    /// # Errors
    ///
    /// Very many classes of one name have almost no columns in common.
    pub fn new(members: Vec<Member>) -> Result<Self> {
        let mut classes: BTreeMap<String, Vec<(usize, usize, usize)>> = BTreeMap::new();
        let ambiguous = ambiguous(&members);
        for (m, member) in members.iter().enumerate() {
            for (s, stream) in member.trace.streams.iter().enumerate() {
                for (e, event) in stream.events.iter().enumerate() {
                    let name = match &event.namespace {
                        Some(space) if ambiguous.contains(event.name.as_str()) => {
                            format!("{space}:{}", event.name)
                        }
                        _ => event.name.clone(),
                    };
                    classes.entry(name).or_default().push((m, s, e));
                }
            }
        }
        let mut streams: Vec<Vec<StreamPlan>> = members
            .iter()
            .map(|m| m.trace.streams.iter().map(StreamPlan::new).collect())
            .collect();
        let mut tables = Vec::new();
        let mut layouts = Vec::new();
        for (name, classes) in classes {
            let table = table(name, &members, &classes, tables.len(), &mut layouts)?;
            tables.push(table);
        }
        for (number, layout) in layouts.iter().enumerate() {
            let Layout {
                member,
                stream,
                event,
                ..
            } = *layout;
            let id = members[member].trace.streams[stream].events[event].id;
            streams[member][stream].events.push((id, number));
        }
        for plan in streams.iter_mut().flatten() {
            plan.sort(&layouts);
        }
        Ok(Self {
            members,
            tables,
            layouts,
            streams,
        })
    }

    /// Iterate over the event classes of a table, which are consecutive, with their numbers.
    pub fn layouts_of(&self, table: usize) -> impl Iterator<Item = (usize, &Layout)> {
        let first = self.layouts.partition_point(|l| l.table < table);
        let all = self.layouts.iter().enumerate().skip(first);
        all.take_while(move |(_, layout)| layout.table == table)
    }
}

/// Return the names that event classes of several namespaces have.
fn ambiguous(members: &[Member]) -> HashSet<String> {
    let mut spaces: HashMap<&str, Option<&str>> = HashMap::new();
    let streams = members.iter().flat_map(|member| &member.trace.streams);
    let mut names = HashSet::new();
    for event in streams.flat_map(|stream| &stream.events) {
        let space = event.namespace.as_deref();
        if *spaces.entry(&event.name).or_insert(space) != space {
            names.insert(event.name.clone());
        }
    }
    names
}

fn table(
    name: String,
    members: &[Member],
    classes: &[(usize, usize, usize)],
    number: usize,
    layouts: &mut Vec<Layout>,
) -> Result<Table> {
    let fields = |(m, s, e): (usize, usize, usize)| {
        let stream = &members[m].trace.streams[s];
        let scopes = stream.events[e].scopes(stream);
        scopes.map(|kind| kind.map_or(&[][..], Type::fields))
    };
    let mut columns = Columns::new();
    let mut targets: Vec<[Vec<Option<usize>>; 3]> = Vec::new();
    for class in classes {
        let [common, own, _] = fields(*class);
        let mut taken = HashSet::new();
        let common = columns.add_contexts(common, &mut taken);
        let own = columns.add_contexts(own, &mut taken);
        targets.push([common, own, Vec::new()]);
    }
    columns.contexts = columns.list.len();
    for (class, targets) in classes.iter().zip(&mut targets) {
        targets[2] = columns.add_payload(fields(*class)[2]);
    }
    let columns = columns.list;
    check_cells(&name, &targets, columns.len())?;
    // The number of classes in which each column always has a value.
    let mut certain = vec![0_usize; columns.len()];
    for (class, targets) in classes.iter().zip(targets) {
        let (m, s, e) = *class;
        let stream = &members[m].trace.streams[s];
        let plan = match compile(stream, &stream.events[e]) {
            Some((segments, wanted)) => {
                let mut sources = vec![None; columns.len()];
                for (target, source) in targets.iter().flatten().zip(wanted.into_iter().flatten()) {
                    if let Some(target) = target {
                        sources[*target] = Some(source);
                    }
                }
                Plan::Flat(segments, sources)
            }
            None => Plan::General,
        };
        for (target, field) in targets
            .iter()
            .flatten()
            .zip(fields(*class).into_iter().flatten())
        {
            if let Some(target) = target
                && !matches!(field.kind, Type::Optional(_))
            {
                certain[*target] += 1;
            }
        }
        layouts.push(Layout {
            member: m,
            stream: s,
            event: e,
            table: number,
            plan,
            targets,
        });
    }
    Ok(Table {
        name,
        schema: schema(&columns, &certain, classes.len()),
        columns,
    })
}

/// Return all columns of a table; `certain` is in how many of its classes each has a value.
fn schema(columns: &[(String, Kind)], certain: &[usize], classes: usize) -> SchemaRef {
    // A column of every class is never null, which halves the work of writing it.
    let null = |column: usize| certain[column] < classes;
    let given = [
        ArrowField::new("time_ns", DataType::Int64, false),
        ArrowField::new("host", DataType::Utf8View, false),
        ArrowField::new("trace", DataType::Utf8View, false),
        ArrowField::new("cpu_id", DataType::Int32, true),
    ];
    Arc::new(Schema::new(
        given
            .into_iter()
            .chain(
                columns
                    .iter()
                    .enumerate()
                    .map(|(at, (name, kind))| ArrowField::new(name, kind.arrow(), null(at))),
            )
            .collect::<Vec<_>>(),
    ))
}

/// Refuse a table whose description would be many times as large as its declarations.
fn check_cells(name: &str, classes: &[[Vec<Option<usize>>; 3]], columns: usize) -> Result<()> {
    let own: usize = classes.iter().flatten().map(Vec::len).sum();
    let count = classes.len();
    if count.saturating_mul(columns).saturating_sub(own) > EMPTY_CELLS {
        return Err(Error::whole(format!(
            "event '{name}' is declared {count} times, with {columns} columns in all: too many \
             for one table"
        )));
    }
    Ok(())
}

impl Columns {
    /// Start with the common columns that fields may fill.
    fn new() -> Self {
        let kinds = [Kind::Int(32, true), Kind::Int(32, true), Kind::Text];
        let names = COMMON[GIVEN..].iter().map(|name| (*name).to_owned());
        let list: Vec<(String, Kind)> = names.zip(kinds).collect();
        let names = list.iter().map(|(name, _)| name.clone());
        Self {
            by_name: names.enumerate().map(|(at, name)| (name, at)).collect(),
            list,
            contexts: 0,
        }
    }

    /// Add context fields and return their columns; `taken` are those that this class has used.
    fn add_contexts(&mut self, fields: &[Field], taken: &mut HashSet<usize>) -> Vec<Option<usize>> {
        let columns = fields.iter().map(|Field { name, kind, .. }| {
            let kind = Kind::of(kind);
            if kind.is_nothing() {
                return None;
            }
            let fits = match name.as_str() {
                "vpid" | "vtid" => matches!(kind, Kind::Int(bits, _) if bits <= 32),
                "procname" => kind == Kind::Text,
                _ => false,
            };
            let common = self.by_name.get(name).copied();
            let at = match common.filter(|at| fits && !taken.contains(at)) {
                Some(at) => at,
                None => self.merge(&format!("ctx_{name}"), &kind, taken),
            };
            taken.insert(at);
            Some(at)
        });
        columns.collect()
    }

    /// Add the fields of a payload and return their columns.
    fn add_payload(&mut self, fields: &[Field]) -> Vec<Option<usize>> {
        let mut taken = HashSet::new();
        let columns = fields.iter().map(|Field { name, kind, .. }| {
            let kind = Kind::of(kind);
            if kind.is_nothing() {
                return None;
            }
            let mut free = name.clone();
            while COMMON.contains(&free.as_str())
                || (self.by_name.get(&free))
                    .is_some_and(|at| *at < self.contexts || taken.contains(at))
            {
                free = format!("field_{free}");
            }
            let at = self.merge(&free, &kind, &taken);
            taken.insert(at);
            Some(at)
        });
        columns.collect()
    }

    /// Return the column for fields of this name and kind, made wider or new if necessary.
    fn merge(&mut self, name: &str, kind: &Kind, taken: &HashSet<usize>) -> usize {
        let mut attempt = name.to_owned();
        let mut number = 1;
        loop {
            let Some(at) = self.by_name.get(&attempt).copied() else {
                let at = self.list.len();
                self.by_name.insert(attempt.clone(), at);
                self.list.push((attempt, kind.clone()));
                return at;
            };
            if at >= self.contexts
                && !taken.contains(&at)
                && let Some(both) = self.list[at].1.unify(kind)
            {
                self.list[at].1 = both;
                return at;
            }
            number += 1;
            attempt = format!("{name}_{number}");
        }
    }
}
