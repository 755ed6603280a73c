//! What is simulated: callbacks and executors, with what was recorded of them.

use pyo3::prelude::*;

/// What a series of samples was recorded as: when, and how much [ns]; both equally long, in order.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Series {
    /// When, since the recording's begin.
    pub at: Vec<i64>,
    /// The sample.
    pub value: Vec<i64>,
}

/// A publication of an execution: how long after its start [ns], and on which topic.
pub type Output = (i64, usize);

/// A callback.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Callback {
    /// A wait set is looked through kind by kind.
    pub kind: usize,
    /// Its place among those of its kind, where that is known.
    pub place: Option<usize>,
    /// Its executor, by number.
    pub executor: usize,
    /// Its callback group, by number.
    pub group: usize,
    /// How many messages wait at most.
    pub depth: Option<usize>,
    /// Of a timer [ns].
    pub period: Option<i64>,
    /// Of a timer: its first release [ns].
    pub phase: i64,
    /// From a publication until the message can be taken [ns].
    pub lag: i64,
    /// How long executions took.
    pub executions: Series,
    /// What each execution published.
    pub outputs: Vec<Vec<Output>>,
    /// From when it became ready to the start of what an idle thread then began with.
    pub handovers: Series,
    /// From when it was chosen to its start: when a wait ended, or thread and group became free.
    pub gaps: Series,
}

/// An executor.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Executor {
    /// The order of its dispatch.
    pub order: Order,
    /// How many threads it has.
    pub threads: usize,
    /// Of its threads: a higher one has the CPU first.
    pub priority: i64,
    /// How long waits took for which something was ready already.
    pub polls: Series,
}

/// An order of dispatch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// All that is ready, once, in the order of the wait set: Single- and `MultiThreadedExecutor`.
    WaitSet,
    /// As it became ready: `EventsExecutor`.
    Events,
    /// Groups in turn, within each as it became ready: `EventsCBGExecutor`.
    Groups,
}

impl<'py> FromPyObject<'_, 'py> for Order {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match given.extract::<String>()?.as_str() {
            "wait_set" => Ok(Self::WaitSet),
            "events" => Ok(Self::Events),
            "groups" => Ok(Self::Groups),
            other => Err(pyo3::exceptions::PyValueError::new_err(format!(
                "order {other:?} is not wait_set, events or groups"
            ))),
        }
    }
}

/// Publications that no callback of the system made: when [ns], and on which topic.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Source {
    /// Since the recording's begin, in order.
    pub at: Vec<i64>,
    /// The topic, by number.
    pub topic: usize,
}

/// All of it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct System {
    /// In the order of their creation.
    pub callbacks: Vec<Callback>,
    /// By number.
    pub executors: Vec<Executor>,
    /// Of each group, whether one callback at a time runs.
    pub exclusive: Vec<bool>,
    /// Of each topic, the callbacks that receive its messages.
    pub topics: Vec<Vec<usize>>,
    /// What comes from outside.
    pub sources: Vec<Source>,
    /// How long was recorded [ns]; as long is simulated.
    pub length: i64,
    /// How long the blocks are of which the resampled recording is made [ns].
    pub block: i64,
    /// Whether an order in a wait set that is not known is drawn; else it is that of creation.
    pub shuffle: bool,
    /// On how many CPUs callbacks run; none: on as many as they like.
    pub cpus: Option<usize>,
    /// So many executions in one replication are without an end.
    pub most: usize,
}
