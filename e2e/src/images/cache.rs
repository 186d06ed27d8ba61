//! Archives that were packed before, by what went into them.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::{Entry, Image, archive};
use crate::progress;

/// How archives are written: another way to write them makes other archives.
const WRITER: &[u8] = include_bytes!("archive.rs");

/// The archives of the images, in their order, packed unless the cache has them whole.
///
/// # Errors
///
/// If an image cannot be packed or the cache not be written.
pub fn provide(images: &[Image], cache: &Path) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(cache).with_context(|| format!("failed to create {}", cache.display()))?;
    images.iter().map(|image| provide_one(image, cache)).collect()
}

fn provide_one(image: &Image, cache: &Path) -> Result<PathBuf> {
    let name = image.names.first().context("failed to pack an image: it has no name")?;
    let stem: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    // 64 bits tell more archives apart than there will ever be.
    let path = cache.join(format!("{stem}-{:.16}.tar", inputs(image)?));
    let sum = path.with_extension("tar.sha256");
    if !is_whole(&path, &sum) {
        progress::say(format_args!("packing the image {name}"));
        archive::pack(image, &path)?;
        // After the archive: one without its sum is packed again.
        archive::write_whole(&sum, sum_of(&path)?.as_bytes())?;
    }
    Ok(path)
}

fn is_whole(path: &Path, sum: &Path) -> bool {
    let recorded = fs::read_to_string(sum);
    matches!((recorded, sum_of(path)), (Ok(recorded), Ok(actual)) if recorded == actual)
}

fn sum_of(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("failed to read {}", path.display()))?;
    Ok(archive::sha256(&bytes))
}

/// The hash of all that makes the archive what it is. Where its files come from does not.
fn inputs(image: &Image) -> Result<String> {
    let without_entries = Image { entries: [].into(), ..image.clone() };
    let mut facts = format!("{} {without_entries:?}\n", archive::sha256(WRITER));
    for (path, entry) in &image.entries {
        match entry {
            Entry::File { from, mode } => writeln!(facts, "{path:?} {mode:o} {}", sum_of(from)?)?,
            other => writeln!(facts, "{path:?} {other:?}")?,
        }
    }
    Ok(archive::sha256(facts.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::{env, process};

    use super::*;

    /// A directory of this test's own, gone when it ends.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(test: &str) -> Self {
            let path = env::temp_dir().join(format!("tombolo-images-{test}-{}", process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn image(&self, program: &str, text: &str) -> Image {
            let from = self.0.join(program);
            fs::write(&from, text).unwrap();
            super::super::of_one_program("tombolo.dev/test:1", "/program", &from)
        }

        fn provide(&self, image: &Image) -> PathBuf {
            provide(std::slice::from_ref(image), &self.0.join("cache")).unwrap().remove(0)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn an_archive_that_is_whole_is_not_packed_again() {
        let scratch = Scratch::new("again");
        let image = scratch.image("a", "program");
        let path = scratch.provide(&image);
        // An archive that could only be found, not made: its sum is right and its bytes are not an archive.
        fs::write(&path, "found").unwrap();
        fs::write(path.with_extension("tar.sha256"), archive::sha256(b"found")).unwrap();
        assert_eq!(scratch.provide(&image), path);
        assert_eq!(fs::read(&path).unwrap(), b"found");
    }

    #[test]
    fn a_damaged_archive_is_packed_again() {
        let scratch = Scratch::new("damaged");
        let image = scratch.image("a", "program");
        let path = scratch.provide(&image);
        let whole = fs::read(&path).unwrap();
        let sum = path.with_extension("tar.sha256");
        let damages: [&dyn Fn(); 4] = [
            &|| fs::write(&path, &whole[..whole.len() / 2]).unwrap(),
            &|| fs::write(&path, "").unwrap(),
            &|| fs::remove_file(&path).unwrap(),
            &|| fs::write(&sum, "").unwrap(),
        ];
        for damage in damages {
            damage();
            assert_eq!(scratch.provide(&image), path);
            assert!(fs::read(&path).unwrap() == whole);
            assert_eq!(fs::read_to_string(&sum).unwrap(), archive::sha256(&whole));
        }
    }

    #[test]
    fn another_content_is_another_archive_but_another_place_is_not() {
        let scratch = Scratch::new("content");
        let first = scratch.provide(&scratch.image("a", "program"));
        assert_eq!(first, scratch.provide(&scratch.image("b", "program")));
        assert_ne!(first, scratch.provide(&scratch.image("a", "changed")));
        let with_arguments = Image { cmd: vec!["--flag".to_owned()], ..scratch.image("a", "program") };
        assert_ne!(first, scratch.provide(&with_arguments));
    }
}
