//! The input of a simulation: callbacks and executors, with the samples recorded for each.

use pyo3::prelude::*;

/// Recorded samples in the order of their times [ns]. Both vectors are equally long.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Series {
    /// Time of each sample since the beginning of the recording [ns].
    pub at: Vec<i64>,
    /// Value of each sample.
    pub value: Vec<i64>,
}

/// A publication that an execution makes: the time since its start [ns], and the topic.
pub type Output = (i64, usize);

/// Rank of a waitable (such as an intra-process subscription) among the kinds of callbacks.
pub const WAITABLE: usize = 4;

/// A callback.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Callback {
    /// Rank of its kind (timer, subscription, ...) in the order in which a wait set is searched.
    pub kind: usize,
    /// Its place among the callbacks of its kind in the wait set. Callbacks without a place follow
    /// in the order of their creation.
    pub place: Option<usize>,
    /// Its executor, by number.
    pub executor: usize,
    /// Its callback group, by number.
    pub group: usize,
    /// Depth of its queue: how many messages can wait.
    pub depth: Option<usize>,
    /// For a timer, the period [ns].
    pub period: Option<i64>,
    /// For a timer, the first release [ns].
    pub phase: i64,
    /// Time from a publication until the message can be taken [ns].
    pub lag: i64,
    /// Execution times [ns].
    pub executions: Series,
    /// Publications of each execution.
    pub outputs: Vec<Vec<Output>>,
    /// When another thread looks for work, since the start of each execution [ns], unless the
    /// executing thread has come back before. If there are none, it looks at once.
    pub takeovers: Vec<i64>,
    /// Times from when this callback became ready and woke an idle thread until that thread started
    /// an execution [ns].
    pub handovers: Series,
    /// Times from when this callback was chosen until it started [ns]. It is chosen when a wait
    /// ends, or when the thread and the callback group become free.
    pub gaps: Series,
}

/// An executor.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Executor {
    /// The order in which it executes callbacks that are ready.
    pub order: Order,
    /// Number of threads.
    pub threads: usize,
    /// Whether the end of an execution ends the wait of another thread: `MultiThreadedExecutor`.
    pub interrupts: bool,
    /// Priority of its threads. Threads of a higher priority get the CPU first.
    pub priority: i64,
    /// Durations of waits that found something ready at once [ns].
    pub polls: Series,
}

/// An order of dispatch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// All ready callbacks once, in the order of the wait set: Single- and `MultiThreadedExecutor`.
    WaitSet,
    /// In the order in which callbacks became ready: `EventsExecutor`.
    Events,
    /// Groups in turn, and within each in the order of readiness: `EventsCBGExecutor`.
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

/// Publications on one topic that no callback of the system made.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Source {
    /// Times since the beginning of the recording [ns], in order.
    pub at: Vec<i64>,
    /// The topic, by number.
    pub topic: usize,
}

/// A system to simulate.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct System {
    /// Callbacks in the order of their creation.
    pub callbacks: Vec<Callback>,
    /// Executors by number.
    pub executors: Vec<Executor>,
    /// Whether each callback group is mutually exclusive.
    pub exclusive: Vec<bool>,
    /// The callbacks that receive the messages of each topic.
    pub topics: Vec<Vec<usize>>,
    /// Publications from outside.
    pub sources: Vec<Source>,
    /// Length of the recording and of the simulation [ns].
    pub length: i64,
    /// Length of the blocks of the resampled recording [ns], a multiple of `step`.
    pub block: i64,
    /// Blocks begin at multiples of this in the recording [ns].
    pub step: i64,
    /// Number of CPUs on which callbacks run; `None` for no limit.
    pub cpus: Option<usize>,
    /// Number of executions beyond which one replication counts as endless.
    pub most: usize,
}
