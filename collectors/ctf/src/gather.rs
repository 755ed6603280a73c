//! Second pass: found events to columns.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use arrow_schema::Schema;

use crate::bits::{chunk, same};
use crate::catalog::{Catalog, GIVEN, Layout};
use crate::columns::{Column, Data, Kind};
use crate::error::{Error, Result};
use crate::model::{ByteOrder, Type};
use crate::packet::Head;
use crate::plan::{Count, Load, Plan, Source, Spot};
use crate::scan::{Rows, header};
use crate::walk::{Cursor, State, Stop, field, float_of, until_nul};

/// A packet that rows refer to.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Its head.
    pub head: &'a Head,
    /// Its trace, as index into [`Catalog::members`].
    pub member: usize,
}

/// Rows next to each other that lie in one packet and have one layout.
struct Run<'a> {
    rows: Range<usize>,
    view: View<'a>,
    layout: &'a Layout,
}

/// The record batch of `range` of `rows`, sorted as they are.
///
/// `first` limits the columns to the first so many (at least [`GIVEN`]).
///
/// # Errors
///
/// A batch too large for Arrow, or a defect.
pub fn batch<'a>(
    catalog: &'a Catalog,
    table: usize,
    rows: &Rows,
    range: Range<usize>,
    first: Option<usize>,
    view: impl Fn(u32) -> View<'a>,
) -> Result<RecordBatch> {
    let table = &catalog.tables[table];
    let all = table.columns.len() + GIVEN;
    let width = first.map_or(all, |first| first.clamp(GIVEN, all));
    let mut runs = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let (packet, layout) = (rows.packet[at], rows.layout[at]);
        let mut end = at + 1;
        while end < range.end && rows.packet[end] == packet && rows.layout[end] == layout {
            end += 1;
        }
        runs.push(Run {
            rows: at..end,
            view: view(packet),
            layout: &catalog.layouts[layout as usize],
        });
        at = end;
    }
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(width);
    arrays.push(Arc::new(Int64Array::from(
        rows.time[range.clone()].to_vec(),
    )));
    let mut host = Column::new(&Kind::Text);
    let mut label = Column::new(&Kind::Text);
    let mut cpu = Vec::with_capacity(range.len());
    for run in &runs {
        let member = &catalog.members[run.view.member];
        host.push_text_many(member.host.as_bytes(), run.rows.len());
        label.push_text_many(member.label.as_bytes(), run.rows.len());
        let number = run.view.head.cpu.and_then(|cpu| i32::try_from(cpu).ok());
        cpu.resize(cpu.len() + run.rows.len(), number);
    }
    arrays.push(host.finish()?);
    arrays.push(label.finish()?);
    arrays.push(Arc::new(Int32Array::from(cpu)));
    let mut columns: Vec<Column> = table.columns[..width - GIVEN]
        .iter()
        .map(|(_, kind)| Column::new(kind))
        .collect();
    if runs.iter().all(|r| matches!(r.layout.plan, Plan::Flat(..))) {
        for (i, column) in columns.iter_mut().enumerate() {
            column.reserve(range.len());
            for run in &runs {
                gather(column, run.layout.sources[i].as_ref(), rows, run)?;
            }
        }
    } else {
        for run in &runs {
            if matches!(run.layout.plan, Plan::Flat(..)) {
                for (i, column) in columns.iter_mut().enumerate() {
                    gather(column, run.layout.sources[i].as_ref(), rows, run)?;
                }
            } else {
                walk_run(catalog, &mut columns, rows, run)?;
            }
        }
    }
    for column in columns {
        arrays.push(column.finish()?);
    }
    let schema = if width == all {
        Arc::clone(&table.schema)
    } else {
        Arc::new(Schema::new(table.schema.fields()[..width].to_vec()))
    };
    RecordBatch::try_new(schema, arrays)
        .map_err(|e| Error::whole(format!("event '{}': {e}", table.name)))
}

fn gather(column: &mut Column, source: Option<&Source>, rows: &Rows, run: &Run<'_>) -> Result<()> {
    if let Some(source) = source {
        from_source(column, source, rows, run)
    } else {
        column.push_nulls(run.rows.len());
        Ok(())
    }
}

/// The byte of a spot in each row.
fn places<'a>(rows: &'a Rows, run: &Run<'_>, spot: Spot) -> impl Iterator<Item = usize> + 'a {
    let stride = rows.stride;
    rows.bases[run.rows.start * stride..run.rows.end * stride]
        .chunks_exact(stride)
        .map(move |bases| bases[spot.segment] as usize + spot.offset)
}

/// The same with the number of elements.
fn counted<'a>(
    rows: &'a Rows,
    run: &Run<'a>,
    spot: Spot,
    count: Count,
) -> impl Iterator<Item = (usize, usize)> + 'a {
    let stride = rows.stride;
    let bytes = run.view.bytes;
    rows.bases[run.rows.start * stride..run.rows.end * stride]
        .chunks_exact(stride)
        .map(move |bases| {
            let length = match count {
                Count::Fixed(length) => length,
                Count::Field(at, load) => {
                    let at = bases[at.segment] as usize + at.offset;
                    // The scan has seen that it fits into the packet.
                    usize::try_from(load.at(bytes, at)).unwrap_or(0)
                }
            };
            (bases[spot.segment] as usize + spot.offset, length)
        })
}

/// Numbers whose column is exactly as wide: nothing but loads and stores.
macro_rules! copy {
    ($values:expr, $type:ty, $bytes:expr, $places:expr) => {
        $values.extend($places.map(|at| <$type>::from_le_bytes(chunk($bytes, at))))
    };
}

fn from_source(column: &mut Column, source: &Source, rows: &Rows, run: &Run<'_>) -> Result<()> {
    let bytes = run.view.bytes;
    match source {
        Source::Int(spot, load) => {
            let places = places(rows, run, *spot);
            let little = load.order == ByteOrder::Little;
            match (&mut column.data, load.bytes) {
                (Data::I8(v), 1) => copy!(v, i8, bytes, places),
                (Data::U8(v), 1) => copy!(v, u8, bytes, places),
                (Data::I16(v), 2) if little => copy!(v, i16, bytes, places),
                (Data::U16(v), 2) if little => copy!(v, u16, bytes, places),
                (Data::I32(v), 4) if little => copy!(v, i32, bytes, places),
                (Data::U32(v), 4) if little => copy!(v, u32, bytes, places),
                (Data::I64(v), 8) if little => copy!(v, i64, bytes, places),
                (Data::U64(v), 8) if little => copy!(v, u64, bytes, places),
                _ => {
                    places.for_each(|at| column.push_int(load.at(bytes, at)));
                    return Ok(());
                }
            }
            column.valid(run.rows.len());
        }
        Source::Float(spot, load) => {
            for at in places(rows, run, *spot) {
                column.push_float(float_of(load.at(bytes, at), load.bytes * 8));
            }
        }
        Source::Enum(spot, load, e) => {
            for at in places(rows, run, *spot) {
                let value = load.at(bytes, at);
                column.push_enum(value, e.label(crate::bits::number(value, load.signed)));
            }
        }
        Source::Text(spot) => {
            if let Data::Text(text) = &mut column.data {
                places(rows, run, *spot).for_each(|at| text.push(until_nul(&bytes[at..])));
                column.valid(run.rows.len());
            }
        }
        Source::Chars(spot, count) => {
            if let Data::Text(text) = &mut column.data {
                let mut before: Option<&[u8]> = None;
                for (at, length) in counted(rows, run, *spot, *count) {
                    let chars = &bytes[at..at + length];
                    if before.is_some_and(|before| same(before, chars)) {
                        text.again();
                    } else {
                        text.push(until_nul(chars));
                        before = Some(chars);
                    }
                }
                column.valid(run.rows.len());
            }
        }
        Source::Ints(spot, count, load) => {
            list(column, rows, run, (*spot, *count, *load), |elements, at| {
                elements.push_int(load.at(bytes, at));
            })?;
        }
        Source::Floats(spot, count, load) => {
            list(column, rows, run, (*spot, *count, *load), |elements, at| {
                elements.push_float(float_of(load.at(bytes, at), load.bytes * 8));
            })?;
        }
        Source::Struct(members) => {
            for (i, source) in members.iter().enumerate() {
                if let Some(member) = column.member(i) {
                    from_source(member, source, rows, run)?;
                }
            }
            column.valid(run.rows.len());
        }
        Source::Nothing => column.valid(run.rows.len()),
    }
    Ok(())
}

fn list(
    column: &mut Column,
    rows: &Rows,
    run: &Run<'_>,
    (spot, count, load): (Spot, Count, Load),
    mut push: impl FnMut(&mut Column, usize),
) -> Result<()> {
    let width = load.bytes as usize;
    for (at, length) in counted(rows, run, spot, count) {
        if let Some(elements) = column.elements() {
            // GIDs and other byte arrays.
            if let (Data::U8(values), 1) = (&mut elements.data, width) {
                values.extend_from_slice(&run.view.bytes[at..at + length]);
                elements.valid(length);
            } else {
                (0..length).for_each(|i| push(elements, at + i * width));
            }
        }
        column.end_list()?;
    }
    Ok(())
}

fn walk_run(catalog: &Catalog, columns: &mut [Column], rows: &Rows, run: &Run<'_>) -> Result<()> {
    let layout = run.layout;
    let trace = &catalog.members[layout.member].trace;
    let stream = &trace.streams[layout.stream];
    let event = &stream.events[layout.event];
    let scopes = [
        stream.event_context.as_ref(),
        event.context.as_ref(),
        event.payload.as_ref(),
    ];
    let filled: Vec<bool> = (0..columns.len())
        .map(|i| layout.targets.iter().flatten().any(|t| *t == Some(i)))
        .collect();
    let defect = |stop: Stop| Error::whole(format!("event '{}': {stop:?}", event.name));
    let mut state = State::new(trace);
    for row in run.rows.clone() {
        state.slots.clone_from(&run.view.head.slots);
        let mut cursor = Cursor {
            bytes: run.view.bytes,
            at: u64::from(rows.bases[row * rows.stride]),
            end: run.view.bytes.len() as u64 * 8,
        };
        header(&mut cursor, stream.event_header.as_ref(), &mut state).map_err(defect)?;
        for (kind, targets) in scopes.iter().zip(&layout.targets) {
            let Some(kind @ Type::Struct(members)) = kind else {
                continue;
            };
            cursor.at = crate::bits::align_up(cursor.at, kind.align());
            for (member, target) in members.fields.iter().zip(targets) {
                let out = target.and_then(|target| columns.get_mut(target));
                field(&mut cursor, member, &mut state, out).map_err(defect)?;
            }
        }
        for (column, filled) in columns.iter_mut().zip(&filled) {
            if !filled {
                column.push_nulls(1);
            }
        }
    }
    Ok(())
}
