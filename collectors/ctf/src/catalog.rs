//! Make the tables of a recording: one per event name, with the columns of all its classes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField, Schema, SchemaRef};

use crate::columns::Kind;
use crate::error::{Error, Result};
use crate::model::{Field, StreamClass, Trace, Type};
use crate::plan::{FlatHeader, Plan, Source, compile, flat_header};

/// Columns that every table begins with; the first four come from packet and trace.
pub const COMMON: [&str; 7] = [
    "time_ns", "host", "trace", "cpu_id", "vpid", "vtid", "procname",
];
/// How many of the common columns no field fills.
pub const GIVEN: usize = 4;
/// Column of the process id.
pub const VPID: usize = 4;
/// Column of the thread name.
pub const PROCNAME: usize = 6;

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
    /// Source of each column of the table, for a flat plan.
    pub sources: Vec<Option<Source>>,
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
    /// Event header, where it is flat.
    pub header: Option<FlatHeader>,
    /// Layout by event number.
    pub events: HashMap<u64, usize>,
    /// Layout by event number, for small numbers; `usize::MAX` for none.
    pub dense: Vec<usize>,
}

impl StreamPlan {
    /// Start without events.
    fn new(stream: &StreamClass) -> Self {
        Self {
            header: flat_header(stream),
            events: HashMap::new(),
            dense: Vec::new(),
        }
    }

    /// Return the layout of an event number.
    #[must_use]
    #[inline]
    pub fn layout(&self, id: u64) -> Option<usize> {
        match usize::try_from(id).ok().and_then(|id| self.dense.get(id)) {
            Some(&usize::MAX) => None,
            Some(&layout) => Some(layout),
            None => self.events.get(&id).copied(),
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

const DENSE: u64 = 1 << 16;
/// Most columns that a class lacks, summed over all classes of a table: without this limit, the
/// size of a table's description could be the square of that of the declarations.
const EMPTY_CELLS: usize = 1 << 22;

/// Columns in order, found by name.
#[derive(Default)]
struct Columns {
    list: Vec<(String, Kind)>,
    by_name: HashMap<String, usize>,
}

/// Columns of one table while its classes are combined.
#[derive(Default)]
struct Draft {
    contexts: Columns,
    payload: Columns,
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
                        Type::Int(int) => (int.base, int.bits),
                        Type::VarInt(int) if int.mappings.is_empty() => (int.base, 64),
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
            let first = layouts.len();
            let table = table(name, &members, &classes, tables.len(), &mut layouts)?;
            tables.push(table);
            for (i, layout) in layouts.iter().enumerate().skip(first) {
                let plan = &mut streams[layout.member][layout.stream];
                let id =
                    members[layout.member].trace.streams[layout.stream].events[layout.event].id;
                match usize::try_from(id) {
                    Ok(at) if id < DENSE => {
                        if plan.dense.len() <= at {
                            plan.dense.resize(at + 1, usize::MAX);
                        }
                        plan.dense[at] = i;
                    }
                    _ => {
                        plan.events.insert(id, i);
                    }
                }
            }
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
    let scopes = |(m, s, e): (usize, usize, usize)| {
        let stream = &members[m].trace.streams[s];
        let scopes = stream.events[e].scopes(stream);
        scopes.map(|kind| kind.map_or(&[][..], Type::fields))
    };
    let mut draft = Draft::default();
    let mut names: Vec<[Vec<Option<String>>; 3]> = Vec::new();
    for class in classes {
        let [common, own, _] = scopes(*class);
        let mut taken = HashSet::new();
        let common = draft.add_contexts(common, &mut taken);
        let own = draft.add_contexts(own, &mut taken);
        names.push([common, own, Vec::new()]);
    }
    for (class, names) in classes.iter().zip(&mut names) {
        names[2] = draft.add_payload(scopes(*class)[2]);
    }
    let columns: Vec<(String, Kind)> = [
        ("vpid", Kind::Int(32, true)),
        ("vtid", Kind::Int(32, true)),
        ("procname", Kind::Text),
    ]
    .map(|(name, kind)| (name.to_owned(), kind))
    .into_iter()
    .chain(draft.contexts.list)
    .chain(draft.payload.list)
    .collect();
    check_cells(&name, &names, columns.len())?;
    let places = columns.iter().enumerate();
    let places: HashMap<&str, usize> = places.map(|(i, (n, _))| (n.as_str(), i)).collect();
    // The number of classes in which each column always has a value.
    let mut certain = vec![0_usize; columns.len()];
    for (class, names) in classes.iter().zip(names) {
        let (m, s, e) = *class;
        let stream = &members[m].trace.streams[s];
        let plan = match flat_header(stream) {
            Some(_) => compile(stream, &stream.events[e]),
            None => Plan::General,
        };
        let targets = names.map(|scope| {
            scope
                .into_iter()
                .map(|name| places.get(name?.as_str()).copied())
                .collect::<Vec<_>>()
        });
        let mut sources = vec![None; columns.len()];
        if let Plan::Flat(_, wanted) = &plan {
            for (targets, wanted) in targets.iter().zip(wanted) {
                for (target, source) in targets.iter().zip(wanted) {
                    if let Some(target) = target {
                        sources[*target] = Some(source.clone());
                    }
                }
            }
        }
        for (targets, fields) in targets.iter().zip(scopes(*class)) {
            for (target, field) in targets.iter().zip(fields) {
                if let Some(target) = target
                    && !matches!(field.kind, Type::Optional(_))
                {
                    certain[*target] += 1;
                }
            }
        }
        layouts.push(Layout {
            member: m,
            stream: s,
            event: e,
            table: number,
            plan,
            targets,
            sources,
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
fn check_cells(name: &str, classes: &[[Vec<Option<String>>; 3]], columns: usize) -> Result<()> {
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

impl Draft {
    /// Add context fields and return their columns; `taken` are those that this class has used.
    fn add_contexts(
        &mut self,
        fields: &[Field],
        taken: &mut HashSet<String>,
    ) -> Vec<Option<String>> {
        let mut columns = Vec::with_capacity(fields.len());
        for (name, kind) in members(fields) {
            if kind.is_nothing() {
                columns.push(None);
                continue;
            }
            let fits = match name.as_str() {
                "vpid" | "vtid" => matches!(kind, Kind::Int(bits, _) if bits <= 32),
                "procname" => kind == Kind::Text,
                _ => false,
            };
            let column = if fits && !taken.contains(&name) {
                name
            } else {
                self.contexts.merge(&format!("ctx_{name}"), &kind, taken)
            };
            taken.insert(column.clone());
            columns.push(Some(column));
        }
        columns
    }

    fn add_payload(&mut self, fields: &[Field]) -> Vec<Option<String>> {
        let mut taken = HashSet::new();
        let mut columns = Vec::with_capacity(fields.len());
        for (name, kind) in members(fields) {
            if kind.is_nothing() {
                columns.push(None);
                continue;
            }
            let mut free = name;
            while COMMON.contains(&free.as_str())
                || self.contexts.by_name.contains_key(&free)
                || taken.contains(&free)
            {
                free = format!("field_{free}");
            }
            let column = self.payload.merge(&free, &kind, &taken);
            taken.insert(column.clone());
            columns.push(Some(column));
        }
        columns
    }
}

fn members(fields: &[Field]) -> Vec<(String, Kind)> {
    let members = fields.iter().map(|f| (f.name.clone(), Kind::of(&f.kind)));
    members.collect()
}

impl Columns {
    /// Return the column for fields of this name and kind, made wider or new if necessary.
    fn merge(&mut self, name: &str, kind: &Kind, taken: &HashSet<String>) -> String {
        let mut attempt = name.to_owned();
        let mut number = 1;
        loop {
            if !taken.contains(&attempt) {
                let Some(at) = self.by_name.get(&attempt) else {
                    self.by_name.insert(attempt.clone(), self.list.len());
                    self.list.push((attempt.clone(), kind.clone()));
                    return attempt;
                };
                let known = &mut self.list[*at].1;
                if let Some(both) = known.unify(kind) {
                    *known = both;
                    return attempt;
                }
            }
            number += 1;
            attempt = format!("{name}_{number}");
        }
    }
}
