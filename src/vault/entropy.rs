//! Randomness.

use parking_lot::Mutex;
use rand::{
    Rng, SeedableRng, TryRng,
    rngs::{StdRng, SysRng},
};

use crate::domain::clock::Entropy;

/// Requests of at least this size are taken for key material.
const KEY_BYTES: usize = 32;

/// The machine's randomness: ids and nonces from a thread-local generator that the system seeds
/// and reseeds (no system call per id), key material from the system itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    #[expect(clippy::disallowed_methods, reason = "the one place that draws randomness")]
    fn fill(&self, out: &mut [u8]) {
        // The thread's generator is itself fit for keys, so it may stand in where the system fails.
        if out.len() < KEY_BYTES || SysRng.try_fill_bytes(out).is_err() {
            rand::rng().fill_bytes(out);
        }
    }
}

/// Randomness that repeats itself from a seed, for tests that compare ids or fuzz reproducibly.
/// Never for a running server: whoever knows the seed knows every key.
#[derive(Debug)]
pub struct SeededEntropy(Mutex<StdRng>);

impl SeededEntropy {
    /// The sequence of `seed`.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        Self(Mutex::new(StdRng::seed_from_u64(seed)))
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, out: &mut [u8]) {
        self.0.lock().fill_bytes(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_sequence_and_another_seed_another() {
        let (a, b, c) =
            (SeededEntropy::from_seed(1), SeededEntropy::from_seed(1), SeededEntropy::from_seed(2));
        let first = a.id_bytes();
        assert_eq!(first, b.id_bytes());
        assert_ne!(first, c.id_bytes());
        assert_ne!(first, a.id_bytes());
    }

    #[test]
    fn the_system_fills_short_and_long_requests() {
        for len in [10, 32, 100] {
            let (mut a, mut b) = (vec![0; len], vec![0; len]);
            OsEntropy.fill(&mut a);
            OsEntropy.fill(&mut b);
            assert_ne!(a, b);
            assert_ne!(a, vec![0; len]);
        }
    }
}
