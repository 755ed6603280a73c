//! One pass over rows of several tables in the order of time, with a state per thread.
//!
//! Every table has the columns `time_ns` and `thread`, and is in the order of time; of rows of the
//! same time those of an earlier table come first. Answers are row numbers.

use std::sync::Arc;

use ahash::{HashMap, HashMapExt, HashSet, HashSetExt};
use arrow_array::types::{Int64Type, UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, BooleanArray, Int8Array, Int64Array, RecordBatch, UInt32Array};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, NullBuffer, ScalarBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::Batches;
use crate::given::{Given, has_nulls};

/// No row.
const NONE: u32 = u32::MAX;

/// One table: time and thread of each row.
struct Part {
    times: ScalarBuffer<i64>,
    threads: ScalarBuffer<i64>,
    given: Given,
}

impl Part {
    fn new(table: &Bound<'_, PyAny>) -> PyResult<Self> {
        let given = Given::new(table)?;
        let part = Self {
            times: given.column::<Int64Type>("time_ns")?,
            threads: given.column::<Int64Type>("thread")?,
            given,
        };
        if part.len() >= NONE as usize {
            return Err(PyValueError::new_err("fewer than 2^32 - 1 rows"));
        }
        if !part.times.is_sorted() {
            return Err(PyValueError::new_err("rows are not in the order of time"));
        }
        Ok(part)
    }

    fn len(&self) -> usize {
        self.times.len()
    }

    /// The key of each row.
    fn keys(&self) -> PyResult<ScalarBuffer<u64>> {
        self.given.column::<UInt64Type>("key")
    }
}

/// The threads that occur, numbered: a table of twice as many places or more, found by hash.
struct Threads {
    places: Vec<(i64, u32)>,
    count: usize,
}

impl Threads {
    fn new<'a>(parts: impl IntoIterator<Item = &'a Part>) -> Self {
        let mut made = Self {
            places: vec![(0, NONE); 16],
            count: 0,
        };
        for part in parts {
            for thread in &part.threads {
                made.insert(*thread);
            }
        }
        made
    }

    /// Where a thread is in the table, or would be.
    fn slot(&self, thread: i64) -> usize {
        let mask = self.places.len() - 1;
        let hash = thread.cast_unsigned().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let mut slot = usize::try_from(hash).unwrap_or_default() & mask;
        while self.places[slot].1 != NONE && self.places[slot].0 != thread {
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn insert(&mut self, thread: i64) {
        let slot = self.slot(thread);
        if self.places[slot].1 != NONE {
            return;
        }
        self.places[slot] = (thread, row(self.count));
        self.count += 1;
        if 2 * self.count > self.places.len() {
            let larger = vec![(0, NONE); 2 * self.places.len()];
            for (thread, number) in std::mem::replace(&mut self.places, larger) {
                if number != NONE {
                    let slot = self.slot(thread);
                    self.places[slot] = (thread, number);
                }
            }
        }
    }

    fn place(&self, thread: i64) -> Option<usize> {
        let found = self.places[self.slot(thread)].1;
        (found != NONE).then_some(found as usize)
    }

    /// Their numbers, by thread.
    fn in_order(&self) -> Vec<usize> {
        let mut found: Vec<_> = self.places.iter().filter(|p| p.1 != NONE).collect();
        found.sort_unstable();
        found.iter().map(|(_, number)| *number as usize).collect()
    }

    /// A state for each.
    fn each<T: Clone>(&self, state: T) -> Vec<T> {
        vec![state; self.count]
    }
}

/// Row numbers: they fit, as `Part::new` sees to.
#[expect(clippy::cast_possible_truncation, reason = "checked by `Part::new`")]
const fn row(number: usize) -> u32 {
    number as u32
}

/// Visit (part, row) in the order of time.
fn merged(parts: &[&Part], mut visit: impl FnMut(usize, usize)) {
    let mut heads: Vec<(usize, usize)> = (0..parts.len())
        .filter(|p| parts[*p].len() > 0)
        .map(|p| (p, 0))
        .collect();
    while heads.len() > 1 {
        let mut first = 0;
        let mut time = parts[heads[0].0].times[heads[0].1];
        for (place, (part, row)) in heads.iter().enumerate().skip(1) {
            let other = parts[*part].times[*row];
            if other < time {
                (first, time) = (place, other);
            }
        }
        let (part, row) = heads[first];
        visit(part, row);
        if row + 1 < parts[part].len() {
            heads[first].1 = row + 1;
        } else {
            heads.remove(first);
        }
    }
    if let Some((part, from)) = heads.first().copied() {
        for row in from..parts[part].len() {
            visit(part, row);
        }
    }
}

/// Row numbers, null where there is none.
fn nullable(rows: Vec<u32>) -> ArrayRef {
    let known = BooleanBuffer::collect_bool(rows.len(), |number| rows[number] != NONE);
    let known = Some(NullBuffer::new(known)).filter(has_nulls);
    Arc::new(UInt32Array::new(rows.into(), known))
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> Batches {
    let made = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .expect("columns of one length");
    Batches {
        schema: made.schema(),
        batches: vec![made],
    }
}

fn of_all(tables: &[Bound<'_, PyAny>]) -> PyResult<Vec<Part>> {
    let parts: Vec<Part> = tables.iter().map(Part::new).collect::<PyResult<_>>()?;
    if i8::try_from(parts.len()).is_err() {
        return Err(PyValueError::new_err("at most 127 tables"));
    }
    if parts.iter().map(Part::len).sum::<usize>() >= NONE as usize {
        return Err(PyValueError::new_err("fewer than 2^32 - 1 rows"));
    }
    Ok(parts)
}

/// How many rows lie before those of each table.
fn offsets(parts: &[Part]) -> Vec<usize> {
    let before = parts.iter().scan(0, |all, part| {
        *all += part.len();
        Some(*all - part.len())
    });
    before.collect()
}

/// The rows of all tables, thread by thread, each in the order of time.
///
/// Returns `part`, the number of the table, and `row`, its number if all tables lie one after the
/// other.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "what the binding extracts")]
pub fn timeline(py: Python<'_>, parts: Vec<Bound<'_, PyAny>>) -> PyResult<Batches> {
    let parts = of_all(&parts)?;
    py.detach(|| {
        let threads = Threads::new(&parts);
        let places: Vec<Vec<u32>> = parts
            .iter()
            .map(|p| {
                let found = p.threads.iter().map(|t| threads.place(*t));
                found
                    .map(|place| row(place.expect("all were seen")))
                    .collect()
            })
            .collect();
        let mut next = threads.each(0_usize);
        for place in places.iter().flatten() {
            next[*place as usize] += 1;
        }
        let mut total = 0;
        for place in threads.in_order() {
            (next[place], total) = (total, total + next[place]);
        }
        let offsets = offsets(&parts);
        let mut kinds = vec![0_i8; total];
        let mut rows = vec![0_u32; total];
        merged(&parts.iter().collect::<Vec<_>>(), |part, number| {
            let cursor = &mut next[places[part][number] as usize];
            kinds[*cursor] = i8::try_from(part).unwrap_or(i8::MAX);
            rows[*cursor] = row(offsets[part] + number);
            *cursor += 1;
        });
        Ok(batch(vec![
            ("part", Arc::new(Int8Array::from(kinds)) as ArrayRef),
            ("row", Arc::new(UInt32Array::from(rows)) as ArrayRef),
        ]))
    })
}

/// For each row of all tables the one before it on its thread: `row`, both by their number if all
/// tables lie one after the other.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "what the binding extracts")]
pub fn previous(py: Python<'_>, parts: Vec<Bound<'_, PyAny>>) -> PyResult<Batches> {
    let parts = of_all(&parts)?;
    py.detach(|| {
        let threads = Threads::new(&parts);
        let offsets = offsets(&parts);
        let mut last = threads.each(NONE);
        let mut found = vec![NONE; parts.iter().map(Part::len).sum()];
        merged(&parts.iter().collect::<Vec<_>>(), |part, number| {
            if let Some(place) = threads.place(parts[part].threads[number]) {
                let here = offsets[part] + number;
                found[here] = std::mem::replace(&mut last[place], row(here));
            }
        });
        Ok(batch(vec![("row", nullable(found))]))
    })
}

/// For each head the first of `rows` on its thread, at its time or after, up to the thread's next
/// head: `row`. Keyed, only rows of the head's `key` count.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "what the binding extracts")]
pub fn first_after(
    py: Python<'_>,
    heads: Bound<'_, PyAny>,
    rows: Bound<'_, PyAny>,
    keyed: bool,
) -> PyResult<Batches> {
    let (heads, rows) = (Part::new(&heads)?, Part::new(&rows)?);
    let keys = if keyed {
        Some((heads.keys()?, rows.keys()?))
    } else {
        None
    };
    py.detach(|| {
        let threads = Threads::new([&heads]);
        let mut last = threads.each(NONE);
        let mut found = vec![NONE; heads.len()];
        merged(&[&heads, &rows], |part, number| {
            let of = if part == 0 { &heads } else { &rows };
            let Some(place) = threads.place(of.threads[number]) else {
                return;
            };
            if part == 0 {
                last[place] = row(number);
            } else if let Some(first) = found.get_mut(last[place] as usize)
                && *first == NONE
                && keys
                    .as_ref()
                    .is_none_or(|(of_head, of_row)| of_head[last[place] as usize] == of_row[number])
            {
                *first = row(number);
            }
        });
        Ok(batch(vec![("row", nullable(found))]))
    })
}

/// The end of each start, by thread and `key`: an end closes the last start before it, and a start
/// that another one followed is never closed; `row` of the ends.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "what the binding extracts")]
pub fn pairs(
    py: Python<'_>,
    starts: Bound<'_, PyAny>,
    ends: Bound<'_, PyAny>,
) -> PyResult<Batches> {
    let (starts, ends) = (Part::new(&starts)?, Part::new(&ends)?);
    let (of_start, of_end) = (starts.keys()?, ends.keys()?);
    py.detach(|| {
        let mut open: HashMap<(i64, u64), u32> = HashMap::default();
        let mut found = vec![NONE; starts.len()];
        merged(&[&starts, &ends], |part, number| {
            if part == 0 {
                let key = (starts.threads[number], of_start[number]);
                open.insert(key, row(number));
            } else if let Some(start) = open.remove(&(ends.threads[number], of_end[number])) {
                found[start as usize] = row(number);
            }
        });
        Ok(batch(vec![("row", nullable(found))]))
    })
}

/// For each moment the interval of its thread that began last of those that last, both ends
/// included: `row`.
///
/// The intervals have `end_ns`; the largest number stands for an end that is not known: such an
/// interval lasts until the next one of its thread begins.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "what the binding extracts")]
pub fn innermost(
    py: Python<'_>,
    starts: Bound<'_, PyAny>,
    moments: Bound<'_, PyAny>,
) -> PyResult<Batches> {
    let (starts, moments) = (Part::new(&starts)?, Part::new(&moments)?);
    let ends = starts.given.column::<Int64Type>("end_ns")?;
    py.detach(|| {
        let threads = Threads::new([&moments]);
        let mut running: Vec<Vec<(i64, u32)>> = threads.each(Vec::new());
        let mut found = vec![NONE; moments.len()];
        merged(&[&starts, &moments], |part, number| {
            let of = if part == 0 { &starts } else { &moments };
            let Some(place) = threads.place(of.threads[number]) else {
                return;
            };
            let (stack, time) = (&mut running[place], of.times[number]);
            while stack.last().is_some_and(|(end, _)| *end < time) {
                stack.pop();
            }
            if part == 0 {
                if stack.last().is_some_and(|(end, _)| *end == i64::MAX) {
                    stack.pop();
                }
                stack.push((ends[number], row(number)));
            } else if let Some((_, start)) = stack.last() {
                found[number] = *start;
            }
        });
        Ok(batch(vec![("row", nullable(found))]))
    })
}

/// The place of each `key` of `values` among those of `known`, which are sorted: `row`, null where
/// it is none of them, and where it is null.
///
/// Looked for around the place of the one before it, so that values that come nearly in their
/// order are found in a few steps.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "what the binding extracts")]
pub fn places_of(
    py: Python<'_>,
    values: Bound<'_, PyAny>,
    known: Bound<'_, PyAny>,
) -> PyResult<Batches> {
    let (values, known) = (Given::new(&values)?, Given::new(&known)?);
    let (values, nulls) = values.nullable_column::<Int64Type>("key")?;
    let known = known.column::<Int64Type>("key")?;
    if known.len() >= NONE as usize {
        return Err(PyValueError::new_err("fewer than 2^32 - 1 rows"));
    }
    if !known.is_sorted() {
        return Err(PyValueError::new_err("what is known is not sorted"));
    }
    py.detach(|| {
        let mut near = 0;
        let found = values.iter().enumerate().map(|(number, value)| {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(number)) {
                return NONE;
            }
            near = lower_bound(&known, near, *value);
            if known.get(near) == Some(value) {
                row(near)
            } else {
                NONE
            }
        });
        let found = nullable(found.collect());
        Ok(batch(vec![("row", found)]))
    })
}

/// Whether each pair of a `row` below `count` and a `key` is there and the first of its kind:
/// `first`.
///
/// Fast where most rows occur once.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "what the binding extracts")]
pub fn firsts(py: Python<'_>, pairs: Bound<'_, PyAny>, count: usize) -> PyResult<Batches> {
    let pairs = Given::new(&pairs)?;
    let (rows, nulls) = pairs.nullable_column::<UInt32Type>("row")?;
    let keys = pairs.column::<Int64Type>("key")?;
    let known = |number| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(number));
    if (0..rows.len()).any(|number| known(number) && rows[number] as usize >= count) {
        return Err(PyValueError::new_err("a row that is not below the count"));
    }
    py.detach(|| {
        let mut once = BooleanBufferBuilder::new(count);
        once.append_n(count, false);
        let mut again = BooleanBufferBuilder::new(count);
        again.append_n(count, false);
        for number in (0..rows.len()).filter(|number| known(*number)) {
            let row = rows[number] as usize;
            if once.get_bit(row) {
                again.set_bit(row, true);
            }
            once.set_bit(row, true);
        }
        let mut seen = HashSet::new();
        let first = BooleanBuffer::collect_bool(rows.len(), |number| {
            let row = rows[number];
            known(number) && (!again.get_bit(row as usize) || seen.insert((row, keys[number])))
        });
        let first = Arc::new(BooleanArray::new(first, None));
        Ok(batch(vec![("first", first)]))
    })
}

/// First and last time, and number, of the rows of each `key`: keys by order of appearance.
///
/// For few keys.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "what the binding extracts")]
pub fn extents(py: Python<'_>, rows: Bound<'_, PyAny>) -> PyResult<Batches> {
    let rows = Given::new(&rows)?;
    let times = rows.column::<Int64Type>("time_ns")?;
    let keys = rows.column::<Int64Type>("key")?;
    py.detach(|| {
        let mut places = HashMap::new();
        let mut found: Vec<(i64, i64, i64, i64)> = Vec::new();
        let mut last = None;
        for (time, key) in times.iter().zip(&keys) {
            let place = match last {
                Some((before, place)) if before == *key => place,
                _ => *places.entry(*key).or_insert_with(|| {
                    found.push((*key, *time, *time, 0));
                    found.len() - 1
                }),
            };
            last = Some((*key, place));
            let (_, first, end, count) = &mut found[place];
            *first = (*first).min(*time);
            *end = (*end).max(*time);
            *count += 1;
        }
        let column = |of: fn(&(i64, i64, i64, i64)) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(found.iter().map(of)))
        };
        Ok(batch(vec![
            ("key", column(|one| one.0)),
            ("begin_ns", column(|one| one.1)),
            ("end_ns", column(|one| one.2)),
            ("events", column(|one| one.3)),
        ]))
    })
}

/// The first place whose value is not less, looked for from `near` on in growing steps.
fn lower_bound(sorted: &[i64], near: usize, value: i64) -> usize {
    let near = near.min(sorted.len());
    let mut step = 1;
    let (low, high) = if sorted.get(near).is_some_and(|found| *found < value) {
        let mut low = near + 1;
        while low + step <= sorted.len() && sorted[low + step - 1] < value {
            low += step;
            step *= 2;
        }
        (low, sorted.len().min(low + step))
    } else {
        let mut high = near;
        while step <= high && sorted[high - step] >= value {
            high -= step;
            step *= 2;
        }
        (high.saturating_sub(step), high)
    };
    low + sorted[low..high].partition_point(|found| *found < value)
}
