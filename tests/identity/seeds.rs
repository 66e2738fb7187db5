//! The fuzz targets' seeds hold what the targets hold of every input, in every test run and without a fuzzer.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tollgate_tests::properties::PROPERTIES;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz").join(name)
}

/// Names of what is in a folder, up to their first dot.
fn names_in(folder: &Path) -> BTreeSet<String> {
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap().split('.').next().unwrap().to_owned();
    fs::read_dir(folder).unwrap().map(|entry| name(entry.unwrap())).collect()
}

#[test]
fn every_property_has_its_target_and_its_seeds() {
    let named: BTreeSet<String> = PROPERTIES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names_in(&folder("fuzz_targets")), named);
    assert_eq!(names_in(&folder("seeds")), named);
}

#[test]
fn every_seed_is_what_its_name_says_and_keeps_its_property() {
    for (name, property) in PROPERTIES {
        let (mut good, mut bad) = (0, 0);
        for entry in fs::read_dir(folder("seeds").join(name)).unwrap() {
            let path = entry.unwrap().path();
            let found = property(&fs::read(&path).unwrap());
            let is_good = path.file_name().unwrap().to_str().unwrap().starts_with("good");
            assert_eq!(found > 0, is_good, "{}: {found} good", path.display());
            *(if is_good { &mut good } else { &mut bad }) += 1;
        }
        assert!(good > 0 && bad > 0, "{name}: {good} good seeds, {bad} bad ones");
    }
}
