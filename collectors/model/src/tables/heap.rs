//! Make the tables of live heap blocks, and of what executions allocate.

use ahash::{HashMap, HashMapExt, HashSet};

use crate::callbacks::Execution;
use crate::columns::{Columns, columns};
use crate::identity::Process;
use crate::ids::{Id, Maybe};
use crate::registry::Callback;
use crate::rows::NEVER;

use super::Tables;

/// Length of the steps of the heap's tables, in ns.
const STEP: i64 = 100_000_000;

/// A process, and perhaps one of its callbacks.
type Owner = (Maybe<Process>, Maybe<Callback>);

/// The live blocks of a process or callback in one step of time.
#[derive(Clone, Copy, Default)]
struct HeapRow {
    owner: Owner,
    time: i64,
    peak: i64,
    bytes: i64,
    blocks: i64,
    allocated: i64,
    allocations: i64,
}

impl Tables {
    /// Make the rows of the live blocks of each process, or of each callback of a process, in steps
    /// of time.
    pub(super) fn living(&self, columns: &mut Columns<'_>, of_callbacks: bool) {
        let mut changes: Vec<(i64, bool, Owner, i64)> = Vec::new();
        let blocks = self.model.heap.blocks.iter();
        for (_, block) in blocks.filter(|(_, block)| block.begin != NEVER) {
            let mut owner: Owner = (Some(block.process), None);
            if of_callbacks {
                let execution = self.model.callbacks.enclosing(block.within, block.begin);
                owner.1 = self.execution(execution).and_then(|owner| owner.callback);
                if owner.1.is_none() {
                    continue;
                }
            }
            changes.push((block.begin, true, owner, block.size));
            if block.end != NEVER {
                changes.push((block.end, false, owner, block.size));
            }
        }
        // At the same time, blocks end before others begin.
        changes.sort_by_key(|change| (change.0, change.1));
        let mut places: HashMap<Owner, (HeapRow, usize)> = HashMap::new();
        let mut rows: Vec<HeapRow> = Vec::new();
        for (time, begins, owner, size) in changes {
            let nothing = (HeapRow::default(), usize::MAX);
            let (live, place) = places.entry(owner).or_insert(nothing);
            (live.owner, live.time) = (owner, time);
            if begins {
                live.bytes = live.bytes.wrapping_add(size);
                live.blocks += 1;
                live.allocated = live.allocated.wrapping_add(size);
                live.allocations += 1;
            } else {
                live.bytes = live.bytes.wrapping_sub(size);
                live.blocks -= 1;
            }
            live.peak = live.bytes;
            match rows.get_mut(*place) {
                Some(row) if row.time.div_euclid(STEP) == time.div_euclid(STEP) => {
                    let peak = row.peak.max(live.peak);
                    *row = HeapRow { peak, ..*live };
                }
                _ => {
                    *place = rows.len();
                    rows.push(*live);
                }
            }
        }
        rows.sort_by_key(|row| (row.time, row.owner));
        self.of_processes(columns, rows.iter().map(|row| row.owner.0));
        let callback = |row: &HeapRow| self.model.registry.callback(row.owner.1);
        if of_callbacks {
            columns!(columns, rows, |row|
                id "callback_id" row.owner.1;
                name "kind" callback(row).kind;
                name "name" callback(row).name;
                name "node" callback(row).node;
            );
        }
        columns!(columns, rows, |row|
            int64 "time_ns" row.time;
            int64 "peak_bytes" row.peak;
            int64 "live_bytes" row.bytes;
            int64 "live_blocks" row.blocks;
            int64 "allocated_bytes" row.allocated;
            int64 "allocations" row.allocations;
        );
    }

    /// Make the rows of what executions allocated and freed, in processes with a recorded heap.
    pub(super) fn allocations(&self, columns: &mut Columns<'_>) {
        let (model, heap) = (&self.model, &self.model.heap);
        let mut sums: HashMap<Maybe<Execution>, [i64; 5]> = HashMap::new();
        let mut recorded: HashSet<Maybe<Process>> = HashSet::default();
        for (_, block) in heap.blocks.iter() {
            recorded.insert(Some(block.process));
            if block.begin != NEVER {
                let execution = model.callbacks.enclosing(block.within, block.begin);
                let [count, size, .., kept] = sums.entry(execution).or_default();
                (*count, *size) = (*count + 1, size.wrapping_add(block.size));
                if block.end == NEVER {
                    *kept = kept.wrapping_add(block.size);
                }
            }
            if block.freed {
                let execution = model.callbacks.enclosing(block.freed_within, block.end);
                let [_, _, count, size, _] = sums.entry(execution).or_default();
                (*count, *size) = (*count + 1, size.wrapping_add(block.size));
            }
        }
        let rows = (!recorded.is_empty()).then(|| model.callbacks.executions.iter());
        let rows = rows.into_iter().flatten();
        let rows = rows.filter(|(_, row)| recorded.contains(&model.process(row.thread)));
        let rows = rows.filter(|(_, row)| !model.registry.is_function(row.callback));
        let rows: Vec<(Id<Execution>, Execution, [i64; 5])> = rows
            .map(|(number, row)| {
                (
                    number,
                    row,
                    sums.get(&Some(number)).copied().unwrap_or_default(),
                )
            })
            .collect();
        let callback = |row: &Execution| model.registry.callback(row.callback);
        self.of_threads(columns, rows.iter().map(|(_, row, _)| row.thread));
        columns!(columns, rows, |(number, row, sums)|
            id "callback_instance_id" *number;
            id "callback_id" row.callback;
            name "kind" callback(row).kind;
            name "name" callback(row).name;
            name "node" callback(row).node;
            int64 "start_ns" row.start;
            int64 "end_ns" row.end;
            int64 "allocations" sums[0];
            int64 "allocated_bytes" sums[1];
            int64 "frees" sums[2];
            int64 "freed_bytes" sums[3];
            int64 "kept_bytes" sums[4];
        );
    }
}
