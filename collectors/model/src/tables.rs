//! Make tables from rows.

mod calls;
mod clocks;
mod counts;
mod heap;
mod messages;

use std::ops::Range;
use std::sync::Arc;

use ahash::{HashMap, HashMapExt, HashSet};
use arrow_array::{RecordBatch, StringArray};
use arrow_schema::ArrowError;

use crate::about::Source;
use crate::callbacks::{Callbacks, Execution};
use crate::columns::{Columns, Texts, columns};
use crate::connections::Messages;
use crate::identity::{Host, Process, Thread};
use crate::ids::{Id, Maybe, flagged, get};
use crate::model::Model;
use crate::partners::Partners;
use crate::publications::Publication;
use crate::registry::{Name, Subscription, Timer};
use crate::rows::{NEVER, known};
use crate::services::Call;

pub use counts::Counts;

use clocks::Nearest;

/// Rows per batch: few enough that its columns stay in the processor's cache.
const BATCH: u32 = 1 << 12;

/// All tables, made batch by batch as they are asked for.
pub struct Tables {
    model: Model,
    partners: Partners,
    messages: Messages,
    calls: Vec<Call>,
    texts: Texts,
    stamps: HashMap<Maybe<Host>, Nearest>,
    topics: HashSet<Maybe<Name>>,
}

impl Model {
    /// Return all tables, once no event is left.
    ///
    /// # Errors
    ///
    /// Rows cannot be read from the disk.
    pub fn finish(mut self) -> Result<Tables, std::io::Error> {
        self.publications.finish();
        if self.publications.disordered {
            self.renumber();
        }
        let tables = Tables::new(self);
        tables.model.check()?;
        Ok(tables)
    }
}

/// How a table is made: at once, or by ranges of rows.
enum Made {
    Whole(fn(&Tables, &mut Columns<'_>)),
    Parts(fn(&Tables, &mut Columns<'_>, Range<u32>)),
}

/// All tables by name.
const TABLES: [(&str, Made); 15] = [
    ("callback_instances", Made::Parts(Tables::executions)),
    ("publications", Made::Parts(Tables::publications)),
    ("takes", Made::Parts(Tables::takes)),
    ("messages", Made::Parts(Tables::messages)),
    ("one_sided_messages", Made::Parts(Tables::one_sided)),
    ("executor_intervals", Made::Parts(Tables::intervals)),
    ("service_calls", Made::Parts(Tables::calls)),
    ("activations", Made::Whole(Tables::activations)),
    ("heap", Made::Whole(|of, columns| of.living(columns, false))),
    (
        "callback_heap",
        Made::Whole(|of, columns| of.living(columns, true)),
    ),
    ("callback_allocations", Made::Whole(Tables::allocations)),
    ("told", Made::Whole(Tables::told)),
    ("connections", Made::Whole(Tables::connections)),
    ("clock_offsets", Made::Whole(Tables::clock_offsets)),
    ("broken_orders", Made::Whole(Tables::broken_orders)),
];

impl Tables {
    /// Iterate over the names of all tables.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TABLES.iter().map(|(name, _)| *name)
    }

    pub(crate) fn new(mut model: Model) -> Self {
        let partners = model.partners();
        let calls = Self::served(&model);
        let hosts = model.identity.hosts.iter().map(String::as_str);
        // A dictionary has at least one text.
        let hosts = hosts.chain(model.identity.hosts.is_empty().then_some(""));
        let texts = Texts {
            names: Arc::new(StringArray::from_iter_values(model.registry.names.texts())),
            hosts: Arc::new(StringArray::from_iter_values(hosts)),
        };
        let topics = model
            .registry
            .publishers
            .iter()
            .map(|publisher| publisher.topic)
            .collect();
        let mut tables = Self {
            messages: Messages::new(&model, &partners),
            model,
            partners,
            calls,
            texts,
            stamps: HashMap::new(),
            topics,
        };
        tables.stamps = tables.stamps();
        tables
    }

    /// Return the wanted columns (all, if none are named) of a batch of a table that begins at row
    /// `from`, and where the next one begins. The first batch, at 0, may be empty; after the last
    /// one there is none.
    ///
    /// # Errors
    ///
    /// Rows cannot be read from the disk, or there is no such column.
    pub fn batch(
        &self,
        table: &str,
        wanted: Option<&[String]>,
        from: u32,
    ) -> Result<Option<(RecordBatch, u32)>, ArrowError> {
        let next = from.saturating_add(BATCH);
        let mut columns = Columns::new(&self.texts, wanted);
        match TABLES.iter().find(|(name, _)| *name == table) {
            Some((_, Made::Parts(make))) => make(self, &mut columns, from..next),
            Some((_, Made::Whole(make))) if from == 0 => make(self, &mut columns),
            _ => return Ok(None),
        }
        let batch = columns.batch()?;
        self.model.check()?;
        let is_batch = from == 0 || batch.num_rows() > 0;
        Ok(is_batch.then_some((batch, next)))
    }

    /// Add the columns that name the process of each row.
    fn of_processes(
        &self,
        columns: &mut Columns<'_>,
        processes: impl Iterator<Item = Maybe<Process>> + Clone,
    ) {
        let identity = &self.model.identity;
        columns.host(
            "host",
            processes.clone().map(|process| identity.host(process)),
        );
        columns.int32(
            "vpid",
            processes.clone().map(|process| identity.vpid(process)),
        );
        columns.id("proc", processes);
    }

    /// Add the columns that name the process and thread of each row.
    fn of_threads(
        &self,
        columns: &mut Columns<'_>,
        threads: impl Iterator<Item = Id<Thread>> + Clone,
    ) {
        let identity = &self.model.identity;
        let processes = threads.clone().map(|thread| identity.process(thread));
        self.of_processes(columns, processes);
        columns.int32("vtid", threads.clone().map(|thread| identity.vtid(thread)));
        columns.int64("thread", threads.map(|thread| identity.number(thread)));
    }

    fn host(&self, thread: Id<Thread>) -> Maybe<Host> {
        self.model.identity.host(self.model.process(thread))
    }

    fn execution(&self, number: Maybe<Execution>) -> Option<Execution> {
        self.model.callbacks.executions.get(number)
    }

    fn start(&self, number: Maybe<Execution>) -> i64 {
        self.execution(number)
            .map_or(NEVER, |execution| execution.start)
    }

    fn end(&self, number: Maybe<Execution>) -> i64 {
        self.execution(number)
            .map_or(NEVER, |execution| execution.end)
    }

    fn node_at(&self, subscription: Maybe<Subscription>) -> Maybe<Name> {
        get(&self.model.registry.subscriptions, subscription)?.node
    }

    fn executions(&self, columns: &mut Columns<'_>, range: Range<u32>) {
        let rows = self.model.callbacks.executions.part(range);
        self.of_threads(columns, rows.iter().map(|(_, row)| row.thread));
        let callback = |row: &Execution| self.model.registry.callback(row.callback);
        columns!(columns, rows, |(number, row)|
            id "callback_instance_id" *number;
            id "callback_id" row.callback;
            name "kind" callback(row).kind;
            id "owner_id" callback(row).owner;
            name "name" callback(row).name;
            name "node" callback(row).node;
            name "symbol" callback(row).symbol;
            int64 "start_ns" row.start;
            int64 "end_ns" row.end;
            int64 "duration_ns" Callbacks::duration(row).unwrap_or(NEVER);
            boolean "intra_process" row.intra;
        );
    }

    fn publications(&self, columns: &mut Columns<'_>, range: Range<u32>) {
        let rows = self.model.publications.rows.part(range);
        let sources: Vec<Source> = rows.iter().map(|(_, row)| self.model.source(row)).collect();
        self.of_threads(columns, rows.iter().map(|(_, row)| row.thread));
        columns!(columns, sources, |source|
            id "publisher_id" source.publisher;
            name "topic" source.topic;
            name "node" source.node;
        );
        let within = |row: &Publication| self.model.callbacks.enclosing(row.within, row.publish);
        columns!(columns, rows, |(number, row)|
            id "message_id" *number;
            int64 "publish_ns" row.publish;
            int64 "rclcpp_publish_ns" row.rclcpp;
            int64 "intra_publish_ns" row.intra;
            int64 "rcl_publish_ns" row.rcl;
            int64 "rmw_publish_ns" row.rmw;
            int64 "source_timestamp_ns" if row.estimated { NEVER } else { row.stamp };
            int64 "header_stamp_ns" row.header;
            int64 "size" row.size;
            id "callback_instance_id" within(row);
        );
    }

    fn takes(&self, columns: &mut Columns<'_>, range: Range<u32>) {
        let rows = self.model.takes.rows.part(range);
        self.of_threads(columns, rows.iter().map(|(_, row)| row.thread));
        columns!(columns, rows, |(number, row)|
            id "take_id" *number;
            id "subscription_id" row.subscription;
            name "topic" self.model.take_topic(row);
            name "node" self.node_at(row.subscription);
            int64 "take_ns" row.time;
            int64 "rcl_take_ns" row.rcl;
            int64 "rclcpp_take_ns" row.rclcpp;
            int64 "received_ns" row.received;
            int64 "source_timestamp_ns" row.stamp;
            boolean "intra_process" Some(row.intra);
            id "callback_instance_id" row.execution;
        );
    }

    fn intervals(&self, columns: &mut Columns<'_>, range: Range<u32>) {
        let callbacks = &self.model.callbacks;
        let rows = callbacks.intervals.part(range).into_iter();
        let totals = |row| callbacks.totals(&row).unwrap_or((NEVER, NEVER, NEVER));
        let rows: Vec<_> = rows.map(|(_, row)| (row, totals(row))).collect();
        self.of_threads(columns, rows.iter().map(|(row, _)| row.thread));
        let states = &["wait", "busy"];
        columns.category(
            "state",
            rows.iter().map(|(row, _)| u8::from(!row.wait)),
            states,
        );
        columns!(columns, rows, |(row, (end, executed, covered))|
            int64 "begin_ns" row.begin;
            int64 "end_ns" *end;
            int64 "duration_ns" known(*end).map_or(NEVER, |end| end.wrapping_sub(row.begin));
            int64 "timeout_ns" row.timeout;
            int64 "executed" *executed;
            int64 "callback_ns" *covered;
            // Filled from the kernel's events, after the pass.
            int64 "cpu_ns" NEVER;
        );
    }

    /// Make a row per execution of a timer's callback, of which `timers.py` makes a table.
    fn activations(&self, columns: &mut Columns<'_>) {
        let registry = &self.model.registry;
        let mut before: HashMap<Id<Timer>, i64> = HashMap::new();
        // Without timers, no execution is read.
        let executions =
            (!registry.periods.is_empty()).then(|| self.model.callbacks.executions.iter());
        let rows = executions.into_iter().flatten();
        let rows = rows.filter_map(|(number, row)| {
            let timer = registry.timer_of(&registry.callback(row.callback))?;
            let period = registry.periods.get(timer.place())?;
            let before = before.insert(timer, row.start);
            let apart =
                before.is_some_and(|before| self.is_missing_between(row.thread, before, row.start));
            Some((number, row, timer, *period, apart))
        });
        let rows: Vec<_> = rows.collect();
        self.of_threads(columns, rows.iter().map(|(_, row, ..)| row.thread));
        columns!(columns, rows, |(number, row, timer, period, apart)|
            id "callback_instance_id" *number;
            id "timer_id" *timer;
            name "node" registry.callback(row.callback).node;
            int64 "period_ns" *period;
            int64 "start_ns" row.start;
            boolean "apart" Some(*apart);
        );
    }

    /// Whether events of a thread's process may be missing between recorded ones at these times.
    fn is_missing_between(&self, thread: Id<Thread>, from: i64, until: i64) -> bool {
        let (gaps, process) = (&self.model.gaps, self.model.process(thread));
        gaps.between(process, from, until)
            || gaps.broken(process, from.saturating_add(1), until.saturating_sub(1))
    }

    /// Make the rows of publications on topics of actions.
    fn told(&self, columns: &mut Columns<'_>) {
        let names = self.model.registry.names.texts().iter();
        let of_actions: Vec<bool> = names.map(|name| name.contains("/_action/")).collect();
        // Most recordings have none.
        let some = of_actions.contains(&true);
        let rows = some.then(|| self.model.publications.rows.iter());
        let rows = rows.into_iter().flatten();
        let rows = rows.map(|(_, row)| (row.publish, self.model.source(&row)));
        let rows = rows.filter(|(_, source)| flagged(&of_actions, source.topic));
        let rows: Vec<(i64, Source)> = rows.collect();
        columns!(columns, rows, |(publish, source)|
            name "topic" source.topic;
            name "node" source.node;
            int64 "publish_ns" *publish;
        );
    }

    /// Make a row per connection, in order of first message: whether all are `never_taken`, and how
    /// many messages there are.
    fn connections(&self, columns: &mut Columns<'_>) {
        let mut rows: Vec<_> = self.messages.connections.iter().collect();
        rows.sort_unstable_by_key(|(_, connection)| connection.first);
        columns!(columns, rows, |((publisher, subscription), connection)|
            id "publisher_id" *publisher;
            id "subscription_id" *subscription;
            boolean "never_taken" Some(connection.count == connection.never_taken);
            int64 "len" connection.count;
        );
    }

    /// Make the rows of broken orders, where an event is missing although no tracer reports it.
    fn broken_orders(&self, columns: &mut Columns<'_>) {
        let rows = self.model.gaps.all_broken();
        columns!(columns, rows, |(process, begin, end)|
            host "host" self.model.identity.host(*process);
            int64 "begin_ns" *begin;
            int64 "end_ns" *end;
        );
    }
}
