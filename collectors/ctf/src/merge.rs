//! Merge packets that overlap in time event by event into batches sorted by time.
//!
//! Packets are given in the order of their beginnings, each as late as possible, so that only those
//! that overlap need be in memory. The packet whose next event is the earliest runs until another's
//! comes first; its events are copied to the [`Stage`] of their table. Nothing is sorted, and no
//! event is read twice.

use arrow_array::RecordBatch;

use crate::catalog::Catalog;
use crate::error::Error;
use crate::plan::over;
use crate::scan::{Damage, Event, Filter, Packet, Reading};
use crate::stage::{BATCH, Projection, Stage};
use crate::text::{Labels, Origin};

/// Number of tables that are finished at a time.
const TABLES: usize = 1 << 12;

/// Time of a packet's next event, and number of the packet, by which events are ordered.
pub type Key = (i64, u32);

/// Why merging stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Halt {
    /// Events are not in the order of time within their packet, or outside its stated times.
    Disorder,
    /// A batch could not be made.
    Failed(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// How events of one layout are decoded.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// With a fixed size: shape, size, and number of wanted bytes.
    Simple(usize, usize, usize),
    /// In segments, with this shape.
    Segments(usize),
    /// With the general decoder.
    General,
}

#[derive(Debug, Clone, Copy)]
struct Route {
    table: usize,
    /// Whether the events are wanted.
    wanted: bool,
    form: Form,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    event: Event,
    number: u32,
    slot: usize,
}

impl Waiting {
    fn key(&self) -> Key {
        (self.event.time, self.number)
    }
}

#[derive(Debug)]
struct Active<'a> {
    reading: Reading<'a>,
    origin: u32,
    /// Last time that the packet's head states.
    end_ns: Option<i64>,
}

/// A merge of packets.
#[derive(Debug)]
pub struct Merge<'a> {
    catalog: &'a Catalog,
    begin_ns: i64,
    end_ns: i64,
    routes: Vec<Route>,
    stages: Vec<Stage<'a>>,
    active: Vec<Option<Active<'a>>>,
    /// Packets by their next event, the latest first.
    waiting: Vec<Waiting>,
    origins: Vec<Origin>,
    labels: Labels,
    /// Number of tables that are finished.
    finished: usize,
    /// Complete batches with their tables, in order.
    pub ready: Vec<(usize, RecordBatch)>,
    /// Packets that could not be read to their end.
    pub damage: Vec<Damage>,
}

impl<'a> Merge<'a> {
    /// Start without packets.
    #[must_use]
    pub fn new(catalog: &'a Catalog, filter: &Filter, projection: &Projection) -> Self {
        let mut routes: Vec<Route> = catalog
            .layouts
            .iter()
            .map(|layout| Route {
                table: layout.table,
                wanted: filter.tables[layout.table],
                form: Form::General,
            })
            .collect();
        let mut stages = Vec::with_capacity(catalog.tables.len());
        for table in 0..catalog.tables.len() {
            let (stage, shapes) = Stage::new(catalog, table, projection);
            for (layout, shape) in shapes {
                routes[layout].form = match stage.shapes[shape].simple {
                    Some((size, bytes)) => Form::Simple(shape, size, bytes),
                    None => Form::Segments(shape),
                };
            }
            stages.push(stage);
        }
        Self {
            catalog,
            begin_ns: filter.begin_ns,
            end_ns: filter.end_ns,
            routes,
            stages,
            active: Vec::new(),
            waiting: Vec::new(),
            origins: Vec::new(),
            labels: Labels::new(catalog.members.iter().map(|m| (&*m.host, &*m.label)), BATCH),
            finished: 0,
            ready: Vec::new(),
            damage: Vec::new(),
        }
    }

    /// Continue with events of other times, after all given packets have been read. What was learnt
    /// about the size of batches is kept.
    pub fn turn_to(&mut self, begin_ns: i64, end_ns: i64) {
        self.begin_ns = begin_ns;
        self.end_ns = end_ns;
        self.finished = 0;
    }

    /// Add a packet, with the first and last time that it states. With `sort`, its events need not
    /// be in order of time.
    ///
    /// # Errors
    ///
    /// See [`Halt`].
    pub fn push(
        &mut self,
        packet: Packet,
        (begin_ns, end_ns): (Option<i64>, Option<i64>),
        sort: bool,
    ) -> Result<(), Halt> {
        let origin = Origin {
            member: packet.member,
            cpu: packet.head.cpu.and_then(|cpu| i32::try_from(cpu).ok()),
        };
        let origin = self
            .origins
            .iter()
            .position(|o| *o == origin)
            .unwrap_or_else(|| {
                self.origins.push(origin);
                self.origins.len() - 1
            });
        let number = packet.number;
        let mut reading = Reading::new(self.catalog, packet);
        if sort {
            self.damage.extend(reading.sort());
        }
        let Some(event) = reading.first() else {
            self.damage.extend(reading.damage());
            return Ok(());
        };
        if begin_ns.is_some_and(|begin| event.time < begin) {
            return Err(Halt::Disorder);
        }
        #[expect(clippy::cast_possible_truncation, reason = "fewer than packets")]
        let active = Some(Active {
            reading,
            origin: origin as u32,
            end_ns,
        });
        let slot = if let Some(free) = self.active.iter().position(Option::is_none) {
            self.active[free] = active;
            free
        } else {
            self.active.push(active);
            self.active.len() - 1
        };
        self.wait(Waiting {
            event,
            number,
            slot,
        });
        Ok(())
    }

    fn wait(&mut self, new: Waiting) {
        let mut at = self.waiting.len();
        while at > 0 && self.waiting[at - 1].key() < new.key() {
            at -= 1;
        }
        self.waiting.insert(at, new);
    }

    /// Take all events before `bound`, or all events.
    ///
    /// # Errors
    ///
    /// See [`Halt`].
    pub fn run_until(&mut self, bound: Option<Key>) -> Result<(), Halt> {
        let bound = bound.unwrap_or((i64::MAX, u32::MAX));
        while let Some(first) = self.waiting.last().copied() {
            if first.key() >= bound {
                break;
            }
            self.waiting.pop();
            let limit = match self.waiting.last() {
                Some(next) => next.key().min(bound),
                None => bound,
            };
            match self.run(first, limit)? {
                Some(event) => self.wait(Waiting { event, ..first }),
                None => self.active[first.slot] = None,
            }
        }
        Ok(())
    }

    /// Take the events of one packet before `limit`; return the next one.
    fn run(&mut self, first: Waiting, limit: Key) -> Result<Option<Event>, Halt> {
        let Self {
            active,
            routes,
            stages,
            ready,
            origins,
            labels,
            damage,
            ..
        } = self;
        let (begin_ns, end_ns) = (self.begin_ns, self.end_ns);
        let Some(Active {
            reading,
            origin,
            end_ns: stated_end,
        }) = &mut active[first.slot]
        else {
            return Ok(None);
        };
        let mut event = first.event;
        let end = reading.end();
        // Numbers matter only at equal times.
        let limit = match limit {
            (time, number) if number <= first.number => time,
            (time, _) => time.saturating_add(1),
        };
        loop {
            if event.time > end_ns {
                if stated_end.is_some_and(|stated| stated <= end_ns) {
                    return Err(Halt::Disorder);
                }
                return Ok(None);
            }
            let route = &routes[event.layout as usize];
            let at = event.at as usize;
            let stage = &mut stages[route.table];
            let wanted = route.wanted && event.time >= begin_ns;
            let head = (event.time, *origin);
            let next = match route.form {
                Form::Simple(_, size, _) if at + size > end => reading.torn(),
                Form::Simple(shape, size, bytes) => {
                    if wanted {
                        stage.push_simple(shape, head, reading.bytes(), at, bytes)?;
                    }
                    reading.after(event, at + size)
                }
                Form::Segments(shape) => {
                    let next = if wanted {
                        stage.push_segments(shape, head, reading.bytes(), end, at)?
                    } else {
                        over(&stage.shapes[shape].segments, reading.bytes(), end, at)
                    };
                    match next {
                        Some(end) => reading.after(event, end),
                        None => reading.torn(),
                    }
                }
                Form::General => {
                    if wanted {
                        stage.push_general(reading, event, *origin)?;
                    }
                    reading.after_general(event)
                }
            };
            if stage.is_full() {
                let batch = stage.finish(origins, labels)?;
                ready.extend(batch.map(|b| (route.table, b)));
            }
            let Some(next) = next else {
                damage.extend(reading.damage());
                return Ok(None);
            };
            if next.time < event.time {
                return Err(Halt::Disorder);
            }
            event = next;
            if next.time >= limit {
                return Ok(Some(next));
            }
        }
    }

    /// Make batches of the remaining rows, although they are not full: of some tables at a time,
    /// because a batch takes far more memory than a few rows. Return true when all tables are done.
    ///
    /// # Errors
    ///
    /// See [`Halt`].
    pub fn finish(&mut self) -> Result<bool, Halt> {
        let from = self.finished;
        self.finished = (from + TABLES).min(self.stages.len());
        for table in from..self.finished {
            let batch = self.stages[table].finish(&self.origins, &self.labels)?;
            self.ready.extend(batch.map(|b| (table, b)));
        }
        Ok(self.finished == self.stages.len())
    }
}
