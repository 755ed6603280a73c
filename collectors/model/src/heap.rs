//! Follow the heap of processes that ran with `LTTng`'s allocator wrapper (`lttng_ust_libc:*`).
//!
//! A block lives from the event that returned its address to the one that frees that address: by
//! `free`, or by `realloc`, which frees one address and returns another one unless it fails. A
//! freed address that no event returned was allocated before the recording, or by the parent
//! process: it is counted and not subtracted.

use ahash::HashMap;
use serde::{Deserialize, Serialize};

use crate::callbacks::Execution;
use crate::identity::{Process, Thread};
use crate::ids::{Id, Maybe};
use crate::intake::Event;
use crate::kinds::Kind;
use crate::rows::{NEVER, Rows};

/// A block of memory, or an address that was freed and that no event had returned.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Block {
    /// The size in bytes, 0 if that is not known.
    pub size: i64,
    /// When its address was returned, `NEVER` if no event shows that.
    pub begin: i64,
    /// When it was freed, or its address was returned again; `NEVER` if it was not.
    pub end: i64,
    pub process: Id<Process>,
    /// The execution that allocated it.
    pub within: Maybe<Execution>,
    /// Whether an event freed it, and in which execution.
    pub freed: bool,
    pub freed_within: Maybe<Execution>,
    thread: Id<Thread>,
    /// The block that had its address before, if no event had freed that.
    before: Maybe<Block>,
}

/// All blocks.
#[derive(Clone, Default)]
pub struct Heap {
    /// In the order in which they were allocated.
    pub blocks: Rows<Block>,
    /// Freed addresses that no event had returned.
    pub unknown: u64,
    /// Addresses that were returned again although no event had freed them.
    pub unseen: u64,
    /// Allocations that failed.
    pub failed: u64,
    live: HashMap<(Id<Process>, u64), Maybe<Block>>,
}

impl Heap {
    /// Handle any call of the allocator. Calls in unknown processes are ignored: there, one address
    /// may be that of many blocks.
    pub fn on_call(&mut self, kind: Kind, event: &Event, within: Maybe<Execution>) {
        let Some(process) = event.process else {
            return;
        };
        let mut size = event.get(0);
        if kind == Kind::Calloc {
            size = size
                .zip(event.get(2))
                .map(|(one, many)| one.wrapping_mul(many));
        }
        let failed = kind == Kind::PosixMemalign && event.get(2) != Some(0);
        let address = event.get(1).filter(|_| !failed).unwrap_or_default();
        let block = Block {
            size: size.unwrap_or_default().cast_signed(),
            begin: event.time,
            end: NEVER,
            process,
            within,
            freed: false,
            freed_within: None,
            thread: event.thread,
            before: None,
        };
        if kind == Kind::Realloc && (address != 0 || size == Some(0)) {
            self.free(event.get(2).unwrap_or_default(), &block, true);
        }
        if kind == Kind::Free {
            self.free(address, &block, false);
        } else if address != 0 {
            self.allocate(address, block);
        } else {
            self.failed += u64::from(size.is_some_and(|size| size > 0));
        }
    }

    fn allocate(&mut self, address: u64, block: Block) {
        let number = self.blocks.next();
        let place = (block.process, address);
        let before = self.live.insert(place, number).flatten();
        if let Some(of_before) = self.blocks.edit(before) {
            of_before.end = block.begin;
            self.unseen += 1;
        }
        self.blocks.push(Block { before, ..block });
    }

    /// Free an address in the call that is described by `by`; `late` if the call is realloc.
    fn free(&mut self, address: u64, by: &Block, late: bool) {
        if address == 0 {
            return;
        }
        let place = (by.process, address);
        let mut freed = self.live.get(&place).copied().flatten();
        // realloc's event comes after it has freed: by then another thread may have the address.
        if late
            && let Some(block) = self.blocks.edit(freed)
            && block.before.is_some()
            && block.thread != by.thread
        {
            freed = block.before.take();
            self.unseen -= 1;
        } else {
            self.live.remove(&place);
        }
        if self.blocks.get(freed).is_none() {
            self.unknown += 1;
            freed = self.blocks.push(Block {
                size: 0,
                begin: NEVER,
                ..*by
            });
        }
        if let Some(block) = self.blocks.edit(freed) {
            (block.end, block.freed, block.freed_within) = (by.begin, true, by.within);
        }
    }
}
