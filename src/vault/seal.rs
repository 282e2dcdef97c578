//! Sealing, unsealing and fingerprints.
//!
//! A sealed value: version (1 byte) · data key id (4, big endian) · nonce (12) · ciphertext · tag
//! (16). The version, the id and the purpose are authenticated with it: a value moved to another
//! row, or presented as another kind of secret, does not open.

use std::fmt;

use aes_gcm::{AeadInOut, Aes256Gcm, KeyInit, Nonce, Tag, aead::inout::InOutBuf};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use zeroize::{Zeroize, Zeroizing};

use crate::{
    domain::{
        clock::{Entropy, SharedEntropy},
        secret::{Sealed, Secret},
    },
    vault::{MasterKey, VaultError},
};

const VERSION: u8 = 1;
const HEADER: usize = 1 + 4;
const NONCE: usize = 12;
const TAG: usize = 16;
/// What a sealed data key is bound to, besides its id.
const DATA_KEY_PURPOSE: &str = "tollway data key";
/// What the fingerprint key is derived for.
const FINGERPRINT_PURPOSE: &[u8] = b"tollway fingerprint key v1";

/// A data key as the store keeps it: sealed by the master key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedDataKey {
    /// Its number: the first is 1, each later one is higher. Two replicas that both make number 1
    /// at their first start meet on the table's primary key; the later one takes the other's.
    pub id: u32,
    /// Its 32 bytes, sealed.
    pub sealed: Sealed,
}

/// Seals and unseals under data keys that it holds open. Cheap to call: one AES-GCM pass, no I/O,
/// no lock.
pub struct Vault {
    keys: Vec<DataKey>,
    /// Position in `keys` of the one that seals.
    active: usize,
    fingerprints: Hmac<Sha256>,
    entropy: SharedEntropy,
}

struct DataKey {
    id: u32,
    cipher: Aes256Gcm,
}

impl Vault {
    /// Makes data key number `id`, sealed by `master`, for the store to keep.
    ///
    /// # Errors
    /// None in practice: [`VaultError::TooLarge`] cannot happen to 32 bytes.
    pub fn new_data_key(
        id: u32,
        master: &MasterKey,
        entropy: &dyn Entropy,
    ) -> Result<SealedDataKey, VaultError> {
        let mut bytes = Zeroizing::new([0; 32]);
        entropy.fill(bytes.as_mut_slice());
        let sealed = seal(&master_cipher(master), id, DATA_KEY_PURPOSE, bytes.as_slice(), entropy)?;
        Ok(SealedDataKey { id, sealed })
    }

    /// Opens every data key with `master`; number `active_id` seals from now on.
    ///
    /// # Errors
    /// [`VaultError::WrongMasterKey`] when `master` did not seal them, and
    /// [`VaultError::UnknownDataKey`] when `active_id` is not among them.
    pub fn open(
        master: &MasterKey,
        sealed: &[SealedDataKey],
        active_id: u32,
        entropy: SharedEntropy,
    ) -> Result<Self, VaultError> {
        let with = master_cipher(master);
        let mut opened = Vec::with_capacity(sealed.len());
        for key in sealed {
            let bytes = open_data_key(&with, key).ok_or_else(|| VaultError::WrongMasterKey {
                origin: master.origin().to_owned(),
                id: key.id,
            })?;
            opened.push((key.id, bytes));
        }
        opened.sort_by_key(|(id, _)| *id);
        let active = opened.iter().position(|(id, _)| *id == active_id);
        let (Some(active), Some((_, oldest))) = (active, opened.first()) else {
            return Err(VaultError::UnknownDataKey(active_id));
        };
        // Keyed by the oldest data key, which is never removed: a fingerprint outlives rotations.
        let fingerprints = fingerprint_key(oldest);
        let keys = opened.iter().map(|(id, bytes)| DataKey { id: *id, cipher: cipher(bytes) }).collect();
        Ok(Self { keys, active, fingerprints, entropy })
    }

    /// Seals a text for one purpose, such as `key:<uuid>`; only the same purpose opens it again.
    ///
    /// # Errors
    /// [`VaultError::TooLarge`].
    pub fn seal(&self, purpose: &str, plain: &Secret) -> Result<Sealed, VaultError> {
        self.seal_bytes(purpose, plain.expose().as_bytes())
    }

    /// Opens what [`Vault::seal`] made for the same purpose.
    ///
    /// # Errors
    /// [`VaultError::Damaged`] and [`VaultError::UnknownDataKey`].
    pub fn unseal(&self, purpose: &str, sealed: &Sealed) -> Result<Secret, VaultError> {
        let bytes = self.open_bytes(purpose, sealed)?;
        String::from_utf8(bytes).map(Secret::new).map_err(|refused| {
            refused.into_bytes().zeroize();
            VaultError::Damaged
        })
    }

    /// As [`Vault::seal`], for material that is not text, such as a signing key.
    ///
    /// # Errors
    /// [`VaultError::TooLarge`].
    pub fn seal_bytes(&self, purpose: &str, plain: &[u8]) -> Result<Sealed, VaultError> {
        let key = &self.keys[self.active];
        seal(&key.cipher, key.id, purpose, plain, &*self.entropy)
    }

    /// As [`Vault::unseal`]; the bytes are wiped when dropped.
    ///
    /// # Errors
    /// [`VaultError::Damaged`] and [`VaultError::UnknownDataKey`].
    pub fn unseal_bytes(&self, purpose: &str, sealed: &Sealed) -> Result<Zeroizing<Vec<u8>>, VaultError> {
        self.open_bytes(purpose, sealed).map(Zeroizing::new)
    }

    /// 32 hexadecimal digits that are equal for equal secrets of this deployment and say nothing
    /// about them to anybody without the vault: for «is this key here already» and for lists.
    #[must_use]
    pub fn fingerprint(&self, plain: &Secret) -> String {
        let mut mac = self.fingerprints.clone();
        mac.update(plain.expose().as_bytes());
        let tag = mac.finalize().into_bytes();
        tag.iter().take(16).fold(String::with_capacity(32), |mut hex, byte| {
            for nibble in [byte >> 4, byte & 15] {
                hex.extend(char::from_digit(u32::from(nibble), 16));
            }
            hex
        })
    }

    fn open_bytes(&self, purpose: &str, sealed: &Sealed) -> Result<Vec<u8>, VaultError> {
        let id = data_key_id(sealed).ok_or(VaultError::Damaged)?;
        let key = self.keys.iter().find(|key| key.id == id).ok_or(VaultError::UnknownDataKey(id))?;
        unseal(&key.cipher, purpose, sealed).ok_or(VaultError::Damaged)
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vault({} data keys)", self.keys.len())
    }
}

fn cipher(key: &[u8; 32]) -> Aes256Gcm {
    Aes256Gcm::new(key.into())
}

fn master_cipher(master: &MasterKey) -> Aes256Gcm {
    cipher(master.bytes())
}

fn open_data_key(with: &Aes256Gcm, key: &SealedDataKey) -> Option<Zeroizing<[u8; 32]>> {
    let named = data_key_id(&key.sealed).filter(|id| *id == key.id);
    let bytes = Zeroizing::new(named.and_then(|_| unseal(with, DATA_KEY_PURPOSE, &key.sealed))?);
    <[u8; 32]>::try_from(bytes.as_slice()).ok().map(Zeroizing::new)
}

/// A key for fingerprints that is of no use for sealing, and the other way round.
fn fingerprint_key(data_key: &[u8; 32]) -> Hmac<Sha256> {
    let mut derive = keyed(data_key);
    derive.update(FINGERPRINT_PURPOSE);
    keyed(&derive.finalize().into_bytes().into())
}

fn keyed(key: &[u8; 32]) -> Hmac<Sha256> {
    let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
    block[..key.len()].copy_from_slice(key);
    Hmac::new(&block)
}

fn seal(
    with: &Aes256Gcm,
    id: u32,
    purpose: &str,
    plain: &[u8],
    entropy: &dyn Entropy,
) -> Result<Sealed, VaultError> {
    let mut nonce = [0; NONCE];
    entropy.fill(&mut nonce);
    let mut out = Vec::with_capacity(HEADER + NONCE + plain.len() + TAG);
    out.push(VERSION);
    out.extend_from_slice(&id.to_be_bytes());
    let bound = bound(&out, purpose);
    out.extend_from_slice(&nonce);
    out.extend_from_slice(plain);
    let body = InOutBuf::from(&mut out[HEADER + NONCE..]);
    let tag =
        with.encrypt_inout_detached(&Nonce::from(nonce), &bound, body).map_err(|_| VaultError::TooLarge)?;
    out.extend_from_slice(&tag);
    Ok(Sealed::from_bytes(out))
}

fn unseal(with: &Aes256Gcm, purpose: &str, sealed: &Sealed) -> Option<Vec<u8>> {
    let (header, rest) = sealed.as_bytes().split_at_checked(HEADER)?;
    let (nonce, rest) = rest.split_at_checked(NONCE)?;
    let (body, tag) = rest.split_at_checked(rest.len().checked_sub(TAG)?)?;
    let nonce = Nonce::try_from(nonce).ok()?;
    let tag = Tag::try_from(tag).ok()?;
    let mut plain = body.to_vec();
    let buffer = InOutBuf::from(plain.as_mut_slice());
    with.decrypt_inout_detached(&nonce, &bound(header, purpose), buffer, &tag).ok()?;
    Some(plain)
}

/// What is authenticated beside the ciphertext.
fn bound(header: &[u8], purpose: &str) -> Vec<u8> {
    [header, purpose.as_bytes()].concat()
}

fn data_key_id(sealed: &Sealed) -> Option<u32> {
    let (&[version, a, b, c, d], _) = sealed.as_bytes().split_first_chunk::<HEADER>()?;
    (version == VERSION).then_some(u32::from_be_bytes([a, b, c, d]))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use base64::{Engine, prelude::BASE64_STANDARD};
    use proptest::prelude::*;

    use super::*;
    use crate::vault::SeededEntropy;

    fn master(byte: u8) -> MasterKey {
        let text = Secret::new(BASE64_STANDARD.encode([byte; 32]));
        MasterKey::from_base64("TOLLWAY_MASTER_KEY", &text).unwrap()
    }

    fn data_key(id: u32) -> SealedDataKey {
        Vault::new_data_key(id, &master(1), &SeededEntropy::from_seed(u64::from(id))).unwrap()
    }

    fn vault(ids: &[u32], active: u32) -> Vault {
        let keys: Vec<_> = ids.iter().map(|id| data_key(*id)).collect();
        Vault::open(&master(1), &keys, active, Arc::new(SeededEntropy::from_seed(9))).unwrap()
    }

    fn secret(text: &str) -> Secret {
        Secret::new(text.to_owned())
    }

    proptest! {
        #[test]
        fn what_is_sealed_opens_again_for_the_same_purpose_only(plain in ".{0,200}", purpose in "[a-z:0-9]{1,60}") {
            let vault = vault(&[1], 1);
            let sealed = vault.seal(&purpose, &secret(&plain)).unwrap();
            prop_assert_eq!(vault.unseal(&purpose, &sealed).unwrap(), secret(&plain));
            prop_assert!(vault.unseal(&(purpose.clone() + "x"), &sealed).is_err());
            prop_assert!(vault.unseal(&purpose[1..], &sealed).is_err());
        }

        #[test]
        fn any_flipped_bit_and_any_cut_is_refused(plain in proptest::collection::vec(any::<u8>(), 0..80), bit in any::<prop::sample::Index>()) {
            let vault = vault(&[1], 1);
            let sealed = vault.seal_bytes("key:1", &plain).unwrap();
            prop_assert_eq!(&*vault.unseal_bytes("key:1", &sealed).unwrap(), &plain);
            let mut bytes = sealed.as_bytes().to_vec();
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(vault.unseal_bytes("key:1", &Sealed::from_bytes(bytes)).is_err());
            let cut = sealed.as_bytes()[..bit / 8].to_vec();
            prop_assert!(vault.unseal_bytes("key:1", &Sealed::from_bytes(cut)).is_err());
        }
    }

    #[test]
    fn sealing_twice_gives_different_bytes_that_hold_nothing_of_the_plain_text() {
        let vault = vault(&[1], 1);
        let plain = secret("sk-an-upstream-secret");
        let (a, b) = (vault.seal("key:1", &plain).unwrap(), vault.seal("key:1", &plain).unwrap());
        assert_ne!(a, b);
        assert!(!a.as_bytes().windows(8).any(|part| plain.expose().as_bytes().windows(8).any(|p| p == part)));
    }

    #[test]
    fn another_master_key_is_told_with_the_place_to_look_at() {
        let keys = [data_key(1)];
        let refused = Vault::open(&master(2), &keys, 1, Arc::new(SeededEntropy::from_seed(9))).unwrap_err();
        assert!(refused.to_string().contains("TOLLWAY_MASTER_KEY"), "{refused}");
    }

    #[test]
    fn a_data_key_under_another_number_does_not_open() {
        let moved = SealedDataKey { id: 2, sealed: data_key(1).sealed };
        assert!(Vault::open(&master(1), &[moved], 2, Arc::new(SeededEntropy::from_seed(9))).is_err());
    }

    #[test]
    fn an_unknown_active_data_key_is_refused() {
        for keys in [vec![], vec![data_key(1)]] {
            let refused = Vault::open(&master(1), &keys, 7, Arc::new(SeededEntropy::from_seed(9)));
            assert!(matches!(refused, Err(VaultError::UnknownDataKey(7))));
        }
    }

    #[test]
    fn after_a_rotation_old_values_open_and_new_ones_take_the_new_key() {
        let before = vault(&[1], 1);
        let after = vault(&[2, 1], 2);
        let old = before.seal("key:1", &secret("old")).unwrap();
        assert_eq!(after.unseal("key:1", &old).unwrap(), secret("old"));
        let new = after.seal("key:1", &secret("new")).unwrap();
        assert!(matches!(before.unseal("key:1", &new), Err(VaultError::UnknownDataKey(2))));
        assert_eq!(before.fingerprint(&secret("same")), after.fingerprint(&secret("same")));
    }

    #[test]
    fn fingerprints_tell_secrets_apart_and_differ_between_deployments() {
        let (ours, theirs) = (vault(&[1], 1), vault(&[2], 2));
        let print = ours.fingerprint(&secret("sk-1"));
        assert_eq!(print.len(), 32);
        assert!(print.bytes().all(|b| b.is_ascii_hexdigit()));
        assert_eq!(print, ours.fingerprint(&secret("sk-1")));
        assert_ne!(print, ours.fingerprint(&secret("sk-2")));
        assert_ne!(print, theirs.fingerprint(&secret("sk-1")));
    }

    #[test]
    fn debug_prints_nothing_secret() {
        assert_eq!(format!("{:?}", vault(&[1, 2], 1)), "Vault(2 data keys)");
        assert!(!format!("{:?}", data_key(1)).contains('['));
    }
}
