//! How long a key stays out after the n-th failure in a row.

use std::time::Duration;

/// The first back-off.
pub const FIRST: Duration = Duration::from_secs(2);
/// No back-off is longer.
pub const LONGEST: Duration = Duration::from_secs(5 * 60);
/// Levels above this count as this.
pub const TOP_LEVEL: u32 = 15;
/// No cooldown, a provider's own reset included, is taken for longer without a probe.
pub const UNPROBED: Duration = Duration::from_secs(30 * 60);

/// The back-off at `level` (0: the first failure): 2 s doubling to 5 min, spread by `jitter` in
/// 0..=255 over the upper tenth so that keys that fell together do not rise together.
#[must_use]
pub fn backoff(level: u32, jitter: u8) -> Duration {
    let doubled = FIRST.saturating_mul(1 << level.min(TOP_LEVEL));
    let capped = doubled.min(LONGEST);
    capped.saturating_sub(capped / 10 * u32::from(jitter) / 255)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_back_off_stays_within_its_bounds(level in 0u32..100, jitter in any::<u8>()) {
            let span = backoff(level, jitter);
            prop_assert!(span >= FIRST * 9 / 10 && span <= LONGEST);
            prop_assert!(backoff(level + 1, jitter) >= span);
        }
    }
}
