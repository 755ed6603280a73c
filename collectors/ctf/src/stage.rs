//! Copy the events of one table together row by row, then turn them into columns.
//!
//! A row holds its time, its origin, the bytes of fixed size of the plan's segments, and for those
//! of varying length a place in the *heap*. As all rows have the same stride, a column is made by a
//! loop of loads at equal distances, over memory that is still in the cache.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, RecordBatchOptions};
use arrow_schema::{Schema, SchemaRef};

use crate::bits::{chunk, number, until_nul};
use crate::catalog::{Catalog, GIVEN, Layout};
use crate::columns::{Column, Data, Numbers};
use crate::error::{Error, Result};
use crate::model::{Type, label};
use crate::plan::{End, Load, Plan, Segment, Source, Spot, walk_segments};
use crate::scan::{Event, Reading, header};
use crate::text::{Labels, Origin, TextBuilder};
use crate::walk::{Cursor, State, Stop, field, float_of};

/// Most rows in a batch.
pub const BATCH: usize = 1 << 14;
/// Rows copied together before they become columns: few enough to stay in the cache.
const STAGED: usize = 512;
/// Room that is made at first, in rows.
const FIRST: usize = 8;
/// Most bytes of varying size before rows become columns.
const HEAP: usize = 1 << 20;
/// Most bytes of varying size in one batch.
const BATCH_HEAP: usize = 16 << 20;
/// Bytes of a row's time and origin.
const HEAD: usize = 12;
/// The number of bytes that is copied at once for most events, whatever they need.
const WIDE: usize = 64;

/// Which columns of each table are wanted.
#[derive(Debug, Clone, Default)]
pub enum Projection {
    /// All columns.
    #[default]
    All,
    /// The columns with these names, and always the time.
    Named(Vec<String>),
}

impl Projection {
    /// Return the schema of the wanted columns.
    #[must_use]
    pub fn schema(&self, all: &SchemaRef) -> SchemaRef {
        let fields = all.fields();
        let wanted = (0..fields.len()).filter(|i| self.has(*i, fields[*i].name()));
        let wanted: Vec<_> = wanted.map(|i| Arc::clone(&fields[i])).collect();
        if wanted.len() == fields.len() {
            return Arc::clone(all);
        }
        Arc::new(Schema::new(wanted))
    }

    fn has(&self, number: usize, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => number == 0 || names.iter().any(|n| n == name),
        }
    }
}

/// How events of one layout are stored in a row.
#[derive(Debug, PartialEq, Eq)]
pub struct Shape {
    /// The segments of an event.
    pub segments: Vec<Segment>,
    /// Byte of the row at which each segment's bytes of fixed size begin.
    fixed: Vec<usize>,
    /// Byte of the row that holds where in the heap the rest of each segment lies.
    tails: Vec<usize>,
    /// Bytes of a row.
    stride: usize,
    /// Source of each wanted column.
    sources: Vec<Option<Source>>,
    /// If its size does not vary: the bytes of an event, and how many of them are wanted.
    pub simple: Option<(usize, usize)>,
}

impl Shape {
    fn new(segments: &[Segment], sources: Vec<Option<Source>>) -> Self {
        let simple = match segments {
            [
                Segment {
                    align: 1,
                    fixed,
                    end: End::Aligned,
                },
            ] => {
                let wanted = sources.iter().flatten().map(Source::end).max();
                Some((*fixed as usize, wanted.unwrap_or(0)))
            }
            _ => None,
        };
        let mut stride = HEAD;
        let mut fixed = Vec::with_capacity(segments.len());
        let mut tails = Vec::with_capacity(segments.len());
        for segment in segments {
            fixed.push(stride);
            stride += simple.map_or(segment.fixed as usize, |(_, wanted)| wanted);
            tails.push(stride);
            if segment.end != End::Aligned {
                stride += 8;
            }
        }
        Self {
            segments: segments.to_vec(),
            fixed,
            tails,
            stride,
            sources,
            simple,
        }
    }

    fn place(&self, spot: Spot) -> usize {
        self.fixed[spot.segment] + spot.offset
    }
}

/// The rows of a table on the way to columns.
#[derive(Debug)]
pub struct Stage<'a> {
    catalog: &'a Catalog,
    table: usize,
    schema: SchemaRef,
    /// The wanted columns that no field fills.
    given: Vec<usize>,
    /// Where each column of the table goes, from [`GIVEN`] on.
    slots: Vec<Option<usize>>,
    /// The ways in which its events are stored in a row.
    pub shapes: Vec<Shape>,
    shape: usize,
    rows: Vec<u8>,
    used: usize,
    staged: usize,
    heap: Vec<u8>,
    times: Vec<i64>,
    origins: Vec<u32>,
    columns: Vec<Column>,
    weight: usize,
    /// Rows to make room for: as many as the batch before had.
    expected: usize,
}

/// Rows of one shape.
struct Staged<'a> {
    rows: &'a [u8],
    heap: &'a [u8],
    shape: &'a Shape,
    count: usize,
}

impl<'a> Stage<'a> {
    /// Start without rows. Returns also the shape of each of the catalog's layouts that has one.
    #[must_use]
    pub fn new(
        catalog: &'a Catalog,
        table: usize,
        projection: &Projection,
    ) -> (Self, Vec<(usize, usize)>) {
        let all = catalog.tables[table].schema.fields();
        let wanted: Vec<usize> = (0..all.len())
            .filter(|i| projection.has(*i, all[*i].name()))
            .collect();
        let schema = projection.schema(&catalog.tables[table].schema);
        let given = wanted.iter().copied().filter(|i| *i < GIVEN).collect();
        let filled: Vec<usize> = wanted.iter().filter_map(|i| i.checked_sub(GIVEN)).collect();
        let mut shapes: Vec<Shape> = Vec::new();
        let mut of_layout = Vec::new();
        for (number, layout) in catalog.layouts_of(table) {
            let Plan::Flat(segments, sources) = &layout.plan else {
                continue;
            };
            let sources = filled.iter().map(|i| sources[*i].clone()).collect();
            let shape = Shape::new(segments, sources);
            // Shapes are shared, because every process declares the same events again.
            let known = shapes.iter().position(|s| *s == shape).unwrap_or_else(|| {
                shapes.push(shape);
                shapes.len() - 1
            });
            of_layout.push((number, known));
        }
        let mut slots = vec![None; all.len() - GIVEN];
        for (slot, column) in filled.iter().enumerate() {
            slots[*column] = Some(slot);
        }
        let mut stage = Self {
            catalog,
            table,
            schema,
            given,
            slots,
            shapes,
            shape: 0,
            rows: Vec::new(),
            used: 0,
            staged: 0,
            heap: Vec::new(),
            times: Vec::new(),
            origins: Vec::new(),
            columns: Vec::new(),
            weight: 0,
            expected: 0,
        };
        stage.columns = stage.fresh();
        (stage, of_layout)
    }

    fn fresh(&self) -> Vec<Column> {
        let table = &self.catalog.tables[self.table];
        let kinds = table.columns.iter().zip(&self.slots);
        kinds
            .filter(|(_, slot)| slot.is_some())
            .map(|((_, kind), _)| {
                let mut column = Column::new(kind);
                column.reserve(self.expected);
                column
            })
            .collect()
    }

    /// Add an event of a simple shape, of which `wanted` bytes at `at` are copied.
    ///
    /// # Errors
    ///
    /// A batch too large for Arrow, or a defect.
    #[expect(
        clippy::inline_always,
        reason = "per event: a call costs more than its work"
    )]
    #[inline(always)]
    pub fn push_simple(
        &mut self,
        shape: usize,
        (time, origin): (i64, u32),
        bytes: &[u8],
        at: usize,
        wanted: usize,
    ) -> Result<()> {
        if shape != self.shape || self.used + HEAD + WIDE.max(wanted) > self.rows.len() {
            self.make_room(shape)?;
        }
        let row = &mut self.rows[self.used..];
        put_head(row, time, origin);
        match (
            row[HEAD..].first_chunk_mut::<WIDE>(),
            bytes.get(at..).and_then(<[u8]>::first_chunk::<WIDE>),
        ) {
            (Some(to), Some(from)) if wanted <= WIDE => *to = *from,
            _ => row[HEAD..HEAD + wanted].copy_from_slice(&bytes[at..at + wanted]),
        }
        self.used += HEAD + wanted;
        self.staged += 1;
        Ok(())
    }

    /// Add an event of any flat shape; return where it ends, or `None` if that is beyond `end`.
    ///
    /// # Errors
    ///
    /// A batch too large for Arrow, or a defect.
    pub fn push_segments(
        &mut self,
        shape: usize,
        (time, origin): (i64, u32),
        bytes: &[u8],
        end: usize,
        at: usize,
    ) -> Result<Option<usize>> {
        let stride = self.shapes[shape].stride;
        if shape != self.shape || self.used + stride > self.rows.len() || self.heap.len() > HEAP {
            self.make_room(shape)?;
        }
        let Self {
            shapes, rows, heap, ..
        } = self;
        let shape = &shapes[shape];
        let row = &mut rows[self.used..self.used + stride];
        put_head(row, time, origin);
        let kept = heap.len();
        let next = walk_segments(&shape.segments, bytes, end, at, |number, fixed, rest| {
            let to = shape.fixed[number];
            row[to..to + fixed.len()].copy_from_slice(fixed);
            if shape.segments[number].end != End::Aligned {
                let to = shape.tails[number];
                row[to..to + 4].copy_from_slice(&small(heap.len()).to_le_bytes());
                row[to + 4..to + 8].copy_from_slice(&small(rest.len()).to_le_bytes());
                heap.extend_from_slice(rest);
            }
        });
        if next.is_some() {
            self.used += stride;
            self.staged += 1;
        } else {
            heap.truncate(kept);
        }
        Ok(next)
    }

    /// Add an event with the general decoder.
    ///
    /// # Errors
    ///
    /// A batch too large for Arrow, or a defect.
    pub fn push_general(&mut self, reading: &Reading<'_>, next: Event, origin: u32) -> Result<()> {
        self.flush()?;
        self.times.push(next.time);
        self.origins.push(origin);
        let layout: &Layout = &self.catalog.layouts[next.layout as usize];
        let trace = &self.catalog.members[layout.member].trace;
        let stream = reading.stream;
        let event = &stream.events[layout.event];
        let defect = |stop: Stop| Error::whole(format!("event '{}': {stop:?}", event.name));
        let mut state = State::new(trace);
        state.slots.clone_from(&reading.packet.head.slots);
        let mut cursor = Cursor {
            bytes: &reading.bytes()[..reading.packet.length],
            at: u64::from(next.at),
            end: reading.packet.length as u64 * 8,
        };
        let begin = cursor.at;
        header(&mut cursor, stream.event_header.as_ref(), &mut state).map_err(defect)?;
        let mut filled = vec![false; self.columns.len()];
        let mut nothing = Column::nothing();
        for (kind, targets) in event.scopes(stream).into_iter().zip(&layout.targets) {
            let Some(kind @ Type::Struct(members)) = kind else {
                continue;
            };
            cursor.at = crate::bits::align_up(cursor.at, kind.align());
            for (member, target) in members.fields.iter().zip(targets) {
                let out = match target.and_then(|target| self.slots[target]) {
                    Some(slot) => {
                        filled[slot] = true;
                        &mut self.columns[slot]
                    }
                    None => &mut nothing,
                };
                field(&mut cursor, member, &mut state, out).map_err(defect)?;
            }
        }
        for (column, filled) in self.columns.iter_mut().zip(filled) {
            if !filled {
                column.push_nulls(1);
            }
        }
        self.weight += usize::try_from((cursor.at - begin) / 8).unwrap_or(usize::MAX);
        Ok(())
    }

    /// Whether there is enough for a batch.
    #[must_use]
    #[inline]
    pub fn is_full(&self) -> bool {
        self.times.len() + self.staged >= BATCH || self.weight > BATCH_HEAP
    }

    #[cold]
    #[inline(never)]
    fn make_room(&mut self, shape: usize) -> Result<()> {
        self.flush()?;
        self.shape = shape;
        // Most tables have few events, and there may be very many tables.
        let stride = self.shapes[shape].stride;
        let grown = (self.rows.len() * 4).max(stride * FIRST + WIDE);
        self.rows.resize(grown.min(stride * STAGED + WIDE), 0);
        Ok(())
    }

    /// Turn the rows copied so far into columns.
    fn flush(&mut self) -> Result<()> {
        if self.staged == 0 {
            return Ok(());
        }
        let staged = Staged {
            rows: &self.rows[..self.used],
            heap: &self.heap,
            shape: &self.shapes[self.shape],
            count: self.staged,
        };
        self.times
            .extend(staged.rows().map(|row| i64::from_le_bytes(chunk(row, 0))));
        self.origins
            .extend(staged.rows().map(|row| u32::from_le_bytes(chunk(row, 8))));
        for (column, source) in self.columns.iter_mut().zip(&staged.shape.sources) {
            match source {
                Some(source) => fill(column, source, &staged)?,
                None => column.push_nulls(staged.count),
            }
        }
        self.weight += self.heap.len();
        self.heap.clear();
        self.used = 0;
        self.staged = 0;
        Ok(())
    }

    /// Return everything so far as a batch; `None` if there is nothing.
    ///
    /// # Errors
    ///
    /// A batch too large for Arrow, or a defect.
    pub fn finish(&mut self, origins: &[Origin], labels: &Labels) -> Result<Option<RecordBatch>> {
        self.flush()?;
        let rows = self.times.len();
        if rows == 0 {
            return Ok(None);
        }
        self.weight = 0;
        self.expected = rows;
        let fresh = self.fresh();
        let columns = std::mem::replace(&mut self.columns, fresh);
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        let mut times = std::mem::replace(&mut self.times, Vec::with_capacity(rows));
        let places = std::mem::take(&mut self.origins);
        for given in &self.given {
            arrays.push(match given {
                0 => Arc::new(Int64Array::from(std::mem::take(&mut times))),
                1 => labels.hosts(&places, origins),
                2 => labels.traces(&places, origins),
                _ => cpus(&places, origins),
            });
        }
        for column in columns {
            arrays.push(column.finish()?);
        }
        self.origins = places;
        self.origins.clear();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)
            .map(Some)
            .map_err(|e| {
                let name = &self.catalog.tables[self.table].name;
                Error::whole(format!("event '{name}': {e}"))
            })
    }
}

fn cpus(places: &[u32], origins: &[Origin]) -> ArrayRef {
    if origins.iter().all(|o| o.cpu.is_some()) {
        let cpus: Vec<i32> = origins.iter().filter_map(|o| o.cpu).collect();
        let values: Vec<i32> = places.iter().map(|p| cpus[*p as usize]).collect();
        return Arc::new(Int32Array::from(values));
    }
    let values: Vec<Option<i32>> = places.iter().map(|p| origins[*p as usize].cpu).collect();
    Arc::new(Int32Array::from(values))
}

/// Write the head of a row. Unlike `copy_from_slice`, this takes two stores.
#[expect(
    clippy::inline_always,
    reason = "per event: a call costs more than its work"
)]
#[inline(always)]
fn put_head(row: &mut [u8], time: i64, origin: u32) {
    let (head, _) = row.split_first_chunk_mut::<HEAD>().unwrap_or_else(no_row);
    let [t0, t1, t2, t3, t4, t5, t6, t7] = time.to_le_bytes();
    let [o0, o1, o2, o3] = origin.to_le_bytes();
    *head = [t0, t1, t2, t3, t4, t5, t6, t7, o0, o1, o2, o3];
}

#[cold]
fn no_row<T>() -> T {
    panic!("no room for a row")
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the heap holds little more than one packet, at most 512 MiB"
)]
fn small(length: usize) -> u32 {
    length as u32
}

impl Staged<'_> {
    /// Copy numbers of `WIDTH` bytes, with nothing but loads and stores.
    fn copy<const WIDTH: usize>(&self, at: usize, numbers: &mut Numbers) {
        let before = numbers.bytes.len();
        numbers.bytes.resize(before + self.count * WIDTH, 0);
        let (places, _) = numbers.bytes[before..].as_chunks_mut::<WIDTH>();
        // Each chunk begins at the number, and ends before that of the next row.
        let rows = self.rows[at..].chunks(self.shape.stride);
        for (place, row) in places.iter_mut().zip(rows) {
            *place = chunk(row, 0);
        }
    }

    fn rows(&self) -> std::slice::ChunksExact<'_, u8> {
        self.rows.chunks_exact(self.shape.stride)
    }

    /// Iterate row by row over these fixed bytes or, without a length, over those of varying size.
    fn bytes(&self, spot: Spot, length: Option<usize>) -> impl Iterator<Item = &[u8]> {
        let at = match length {
            Some(_) => self.shape.place(spot),
            None => self.shape.tails[spot.segment],
        };
        self.rows().map(move |row| match length {
            Some(length) => &row[at..at + length],
            None => self.tail(row, at),
        })
    }

    fn tail(&self, row: &[u8], at: usize) -> &[u8] {
        let from = u32::from_le_bytes(chunk(row, at)) as usize;
        let length = u32::from_le_bytes(chunk(row, at + 4)) as usize;
        &self.heap[from..from + length]
    }
}

fn fill(column: &mut Column, source: &Source, staged: &Staged<'_>) -> Result<()> {
    match source {
        Source::Number(spot, load) => {
            let at = staged.shape.place(*spot);
            match &mut column.data {
                Data::Numbers(numbers) if numbers.holds(*load) => {
                    match load.bytes {
                        1 => staged.copy::<1>(at, numbers),
                        2 => staged.copy::<2>(at, numbers),
                        4 => staged.copy::<4>(at, numbers),
                        _ => staged.copy::<8>(at, numbers),
                    }
                    column.valid(staged.count);
                }
                _ => staged.rows().for_each(|row| push(column, *load, row, at)),
            }
        }
        Source::Enum(spot, load, mappings) => {
            let at = staged.shape.place(*spot);
            for row in staged.rows() {
                let value = load.at(row, at);
                column.push_enum(value, || label(mappings, number(value, load.signed)));
            }
        }
        Source::Chars(spot, count) => {
            if let Data::Text(text) = &mut column.data {
                fill_chars(text, *spot, *count, staged);
                column.valid(staged.count);
            }
        }
        Source::Numbers(spot, count, load) => {
            let length = count.map(|count| count * load.bytes as usize);
            for bytes in staged.bytes(*spot, length) {
                let elements = column.elements();
                match &mut elements.data {
                    Data::Numbers(numbers) if numbers.holds(*load) => {
                        numbers.bytes.extend_from_slice(bytes);
                        elements.valid(bytes.len() / load.bytes as usize);
                    }
                    _ => (0..bytes.len())
                        .step_by(load.bytes as usize)
                        .for_each(|at| push(elements, *load, bytes, at)),
                }
                column.end_list()?;
            }
        }
        Source::Struct(members) => {
            for (i, source) in members.iter().enumerate() {
                fill(column.member(i), source, staged)?;
            }
            column.valid(staged.count);
        }
    }
    Ok(())
}

fn fill_chars(text: &mut TextBuilder, spot: Spot, length: Option<usize>, staged: &Staged<'_>) {
    match length {
        Some(length @ 16..=24) => {
            let at = staged.shape.place(spot);
            text.extend_chars(staged.rows().map(|row| &row[at..at + length]));
        }
        _ => {
            for chars in staged.bytes(spot, length) {
                text.push(until_nul(chars));
            }
        }
    }
}

/// Append a number that is loaded from `at`.
fn push(column: &mut Column, load: Load, bytes: &[u8], at: usize) {
    let value = load.at(bytes, at);
    if load.float {
        column.push_float(float_of(value, load.bytes * 8));
    } else {
        column.push_int(value);
    }
}
