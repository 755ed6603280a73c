//! What the C library keeps of freed memory.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Memory that is needed again soon is better kept: the kernel clears every page that it hands out.
const PAUSE: Duration = Duration::from_secs(30);

static GIVEN: Mutex<Option<Instant>> = Mutex::new(None);

/// Call `give_back`, unless that was done within the last `PAUSE`.
pub fn give_back_at_times() {
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    if given.is_none_or(|then| then.elapsed() > PAUSE) {
        give_back();
        *given = Some(Instant::now());
    }
}

/// Give it back to the system: each thread had a pool of its own, and a thread that comes later
/// does not fill those that ended ones left, so that memory would grow call by call.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "a call into the C library")]
    // SAFETY: it may be called at any time, from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}
