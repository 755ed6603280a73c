//! What tables are made of.

use std::ops::Range;

use ahash::{HashMap, HashSet};

use crate::callbacks::Execution;
use crate::columns::{Columns, Texts};
use crate::connections::Messages;
use crate::identity::{Host, Process, Thread};
use crate::ids::{Id, Maybe, get};
use crate::model::Model;
use crate::partners::Partners;
use crate::registry::{Name, Subscription};
use crate::rows::{NEVER, Plain, Rows};
use crate::services::Call;

/// Rows of a batch: its columns stay in the cache of the processor.
pub(super) const BATCH: u32 = 1 << 12;

/// Some rows with their numbers, counted from the first one that is not forgotten.
pub(super) fn some<T: Plain>(rows: &Rows<T>, range: Range<u32>) -> Vec<(Id<T>, T)> {
    let first = rows.first().saturating_add(range.start);
    rows.from(first).take(range.len()).collect()
}

/// All tables, made batch by batch as they are asked for.
pub struct Tables {
    pub(super) model: Model,
    pub(super) partners: Partners,
    pub(super) messages: Messages,
    pub(super) calls: Vec<Call>,
    pub(super) texts: Texts,
    pub(super) stamps: HashMap<Maybe<Host>, Vec<(i64, i64)>>,
    pub(super) topics: HashSet<Maybe<Name>>,
}

impl Tables {
    pub(super) fn check(&self) -> Result<(), std::io::Error> {
        self.model.check()
    }

    /// The columns that say of which process rows are.
    pub(super) fn of_processes(
        &self,
        columns: &mut Columns<'_>,
        processes: impl Iterator<Item = Maybe<Process>> + Clone,
    ) {
        let identity = &self.model.identity;
        columns.host("host", processes.clone().map(|of| identity.host(of)));
        columns.int32("vpid", processes.clone().map(|of| identity.vpid(of)));
        columns.id("proc", processes);
    }

    /// The same of threads.
    pub(super) fn of_threads(
        &self,
        columns: &mut Columns<'_>,
        threads: impl Iterator<Item = Id<Thread>> + Clone,
    ) {
        let identity = &self.model.identity;
        let processes = threads.clone().map(|of| identity.process(of));
        self.of_processes(columns, processes);
        columns.int32("vtid", threads.clone().map(|of| identity.vtid(of)));
        columns.int64("thread", threads.map(|of| identity.number(of)));
    }

    pub(super) fn execution(&self, number: Maybe<Execution>) -> Option<Execution> {
        self.model.callbacks.executions.get(number)
    }

    pub(super) fn start(&self, number: Maybe<Execution>) -> i64 {
        self.execution(number).map_or(NEVER, |of| of.start)
    }

    pub(super) fn end(&self, number: Maybe<Execution>) -> i64 {
        self.execution(number).map_or(NEVER, |of| of.end)
    }

    pub(super) fn node_at(&self, subscription: Maybe<Subscription>) -> Maybe<Name> {
        get(&self.model.registry.subscriptions, subscription)?.node
    }
}
