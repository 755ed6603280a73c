//! Give freed memory that the C library keeps back to the system.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long memory is kept, as it may be needed again soon: the kernel clears every page that it
/// hands out.
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

/// Give freed memory back to the system: each thread had a pool of its own, and later threads do
/// not use the pools that ended ones left, so memory would grow with each call.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "a call into the C library")]
    // SAFETY: `malloc_trim` may be called at any time, from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}
