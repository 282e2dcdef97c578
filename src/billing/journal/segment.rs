//! The files of a journal directory.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::fs::{FallocateFlags, fallocate};

use super::frame::MAX_FRAME_BYTES;

/// A segment with space to write into: the current one or a spare.
#[derive(Debug)]
pub struct Segment {
    /// Its place in the order of segments.
    pub number: u64,
    /// Open for reading and writing.
    pub file: Arc<File>,
    /// Where the next write goes.
    pub written: u64,
    /// Bytes of the file.
    pub size: u64,
}

impl Segment {
    /// Bytes that can be promised: what is left, less the longest frame. A segment is left behind
    /// when the next frame does not fit, so at most that much of it is wasted.
    #[must_use]
    pub const fn room(&self) -> u64 {
        (self.size - self.written).saturating_sub(MAX_FRAME_BYTES as u64)
    }

    /// Whether a frame of `bytes` fits.
    #[must_use]
    pub const fn fits(&self, bytes: u64) -> bool {
        self.size - self.written >= bytes
    }

    /// Appends frames with one `write(2)`.
    ///
    /// # Errors
    ///
    /// The system's; nothing was appended then.
    pub fn append(&mut self, frames: &[u8]) -> io::Result<()> {
        if let Err(failed) = self.file.write_all_at(frames, self.written) {
            // Half a frame would be taken for damage once a shorter one is written over it.
            let _ = self.file.write_all_at(&vec![0; frames.len()], self.written);
            return Err(failed);
        }
        self.written += frames.len() as u64;
        Ok(())
    }
}

/// The file of segment `number`.
#[must_use]
pub fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("segment-{number:012}.journal"))
}

fn number_of(name: &str) -> Option<u64> {
    name.strip_prefix("segment-")?.strip_suffix(".journal")?.parse().ok()
}

/// Numbers and sizes of all segments there are, in order.
///
/// # Errors
///
/// The directory cannot be read.
pub fn list(dir: &Path) -> io::Result<Vec<(u64, u64)>> {
    let mut segments = Vec::new();
    for entry in dir.read_dir()? {
        let entry = entry?;
        if let Some(number) = entry.file_name().to_str().and_then(number_of) {
            segments.push((number, entry.metadata()?.len()));
        }
    }
    segments.sort_unstable();
    Ok(segments)
}

/// Makes segment `number` with `size` bytes that the disk has truly set aside.
///
/// # Errors
///
/// The system's, `StorageFull` above all; nothing is left behind then.
pub fn create(dir: &Path, number: u64, size: u64) -> io::Result<Segment> {
    let path = path(dir, number);
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    let prepared = allocate(&file, size).and_then(|()| file.sync_all()).and_then(|()| sync_dir(dir));
    if let Err(failed) = prepared {
        let _ = std::fs::remove_file(&path);
        return Err(failed);
    }
    Ok(Segment { number, file: Arc::new(file), written: 0, size })
}

/// Sets bytes aside; where the file system cannot, writes zeros.
fn allocate(mut file: &File, size: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, size) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::OPNOTSUPP) => {
            let zeros = vec![0; 1 << 16];
            let mut left = size;
            while left > 0 {
                let piece = left.min(zeros.len() as u64);
                file.write_all(&zeros[..usize::try_from(piece).unwrap_or(zeros.len())])?;
                left -= piece;
            }
            Ok(())
        }
        Err(failed) => Err(failed.into()),
    }
}

/// Opens segment `number` as found on disk.
///
/// # Errors
///
/// The system's.
pub fn open(dir: &Path, number: u64) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path(dir, number))
}

/// Makes names in `dir` durable.
///
/// # Errors
///
/// The system's.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Replaces the file `name` in `dir` as a whole, durably: readers see the old or the new content.
///
/// # Errors
///
/// The system's.
pub fn replace(dir: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let draft = dir.join(format!("{name}.new"));
    let mut file = File::create(&draft)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&draft, dir.join(name))?;
    sync_dir(dir)
}
