//! The heap of processes that ran with `LTTng`'s allocator wrapper (`lttng_ust_libc:*`).
//!
//! A block lives from the event that returned its address to the one that frees that address: by
//! `free`, or by `realloc`, which frees one address and returns another one unless it fails. A freed
//! address that no event returned was allocated before the recording, or by the parent process: it is
//! counted and not subtracted.

use ahash::HashMap;

use crate::callbacks::Execution;
use crate::identity::{Process, Thread};
use crate::ids::{Id, Maybe};
use crate::intake::Event;
use crate::kinds::Kind;
use crate::rows::{NEVER, Rows, plain};

plain! {
    /// A block of memory.
    pub struct Block {
        pub size: i64,
        /// When it was returned.
        pub begin: i64,
        /// When it was freed, `NEVER` where it was not.
        pub end: i64,
        pub process: Id<Process>,
        /// What allocated it.
        pub within: Maybe<Execution>,
        thread: Id<Thread>,
        /// The block that had its address before, and was never seen freed.
        before: Maybe<Block>,
    }
}

plain! {
    /// An address that was freed.
    pub struct Free {
        pub time: i64,
        pub process: Id<Process>,
        /// The size of its block, 0 where that is not known.
        pub size: i64,
        /// What freed it.
        pub within: Maybe<Execution>,
    }
}

/// All blocks.
#[derive(Clone, Default)]
pub struct Heap {
    /// In the order in which they were allocated.
    pub blocks: Rows<Block>,
    /// In the order in which they were freed.
    pub frees: Rows<Free>,
    /// Freed addresses that no event had returned.
    pub unknown: u64,
    /// Addresses that were returned again although no event had freed them.
    pub unseen: u64,
    /// Allocations that failed.
    pub failed: u64,
    live: HashMap<(Id<Process>, u64), Maybe<Block>>,
}

impl Heap {
    /// Any call of the allocator in a process.
    pub fn on_call(
        &mut self,
        kind: Kind,
        event: &Event,
        process: Id<Process>,
        within: Maybe<Execution>,
    ) {
        let (size, mut address) = (event.get(0), event.get(1).unwrap_or_default());
        let size = match kind {
            Kind::Calloc => size
                .zip(event.get(2))
                .map(|(size, many)| size.wrapping_mul(many)),
            _ => size,
        };
        if kind == Kind::PosixMemalign && event.get(2) != Some(0) {
            address = 0;
        }
        if kind == Kind::Realloc {
            let freed = event.get(2).unwrap_or_default();
            if freed != 0 && (address != 0 || size == Some(0)) {
                self.free(event, process, freed, within, true);
            }
        }
        if kind == Kind::Free {
            if address != 0 {
                self.free(event, process, address, within, false);
            }
        } else if address != 0 {
            self.allocate(event, process, address, size.unwrap_or_default(), within);
        } else {
            self.failed += u64::from(size.is_some_and(|size| size > 0));
        }
    }

    fn allocate(
        &mut self,
        event: &Event,
        process: Id<Process>,
        address: u64,
        size: u64,
        within: Maybe<Execution>,
    ) {
        let number = self.blocks.next();
        let before = self.live.insert((process, address), number).flatten();
        if let Some(block) = self.blocks.edit(before) {
            block.end = event.time;
            self.unseen += 1;
        }
        self.blocks.push(Block {
            size: size.cast_signed(),
            begin: event.time,
            end: NEVER,
            process,
            within,
            thread: event.thread,
            before,
        });
    }

    fn free(
        &mut self,
        event: &Event,
        process: Id<Process>,
        address: u64,
        within: Maybe<Execution>,
        late: bool,
    ) {
        let mut freed = self.live.get(&(process, address)).copied().flatten();
        // realloc tells after it has freed: meanwhile another thread may have got the address.
        if late
            && let Some(block) = self.blocks.edit(freed)
            && block.before.is_some()
            && block.thread != event.thread
        {
            freed = block.before.take();
            self.unseen -= 1;
        } else {
            self.live.remove(&(process, address));
        }
        let size = self.blocks.edit(freed).map(|block| {
            block.end = event.time;
            block.size
        });
        self.unknown += u64::from(size.is_none());
        self.frees.push(Free {
            time: event.time,
            process,
            size: size.unwrap_or_default(),
            within,
        });
    }
}
