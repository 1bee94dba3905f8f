//! A session in a header: any value survives it, and what is no header of ours is refused without its values.

use std::collections::{BTreeMap, HashMap};

use hermes_env_bridge::{
    CarrierError, Extractor, Injector, MAX_HEADER_BYTES, SESSION_HEADER, Session, Snapshot, SnapshotError, extract,
    inject,
};
use proptest::collection::btree_map;
use proptest::prelude::*;

const SECRET: &str = "s3cret-value";

fn text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[%&=\\\\\"\0\r\n +,;a-f0-9]{0,12}"]
}

fn snapshot() -> impl Strategy<Value = Snapshot> {
    btree_map(text(), text(), 0..6).prop_map(|mapping| {
        let known = [("HERMES_SESSION_CHAT_NAME", "Zoë & Co = 100%\0\n"), ("HERMES_SESSION_USER_ID", "")];
        let drawn = mapping.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        Snapshot::from_mapping(known.into_iter().chain(drawn)).unwrap()
    })
}

/// What comes out of a carrier of this kind into which `snapshot` was put.
fn carried<C: Injector + Extractor + Default>(snapshot: &Snapshot) -> Snapshot {
    let mut carrier = C::default();
    snapshot.inject(&mut carrier).unwrap();
    extract(&carrier).unwrap().expect("it was put in")
}

proptest! {
    #[test]
    fn any_snapshot_survives_every_kind_of_carrier(snapshot in snapshot()) {
        prop_assert_eq!(&carried::<HashMap<String, String>>(&snapshot), &snapshot);
        prop_assert_eq!(&carried::<BTreeMap<String, String>>(&snapshot), &snapshot);
        prop_assert_eq!(&carried::<Vec<(String, String)>>(&snapshot), &snapshot);
        #[cfg(feature = "http")]
        prop_assert_eq!(&carried::<http::HeaderMap>(&snapshot), &snapshot);
    }

    #[test]
    fn a_header_is_visible_ascii_without_white_space_and_separators_of_lists(snapshot in snapshot()) {
        let header = snapshot.to_header().unwrap();
        prop_assert!(header.bytes().all(|b| b.is_ascii_alphanumeric() || b"%&=-._~".contains(&b)), "{}", header);
    }

    #[test]
    fn a_text_is_a_header_of_ours_or_refused(header in "([A-Z]{0,2}[=&%]{0,2}(%[0-9a-fA-F]{2}|[a-z ]|\\PC){0,4}&?){0,4}") {
        if let Ok(snapshot) = Snapshot::from_header(&header) {
            // Only the order and the letters of the digits can differ.
            let canonical = |header: &str| {
                let mut entries: Vec<_> = header.split('&').map(str::to_ascii_lowercase).collect();
                entries.sort();
                entries
            };
            prop_assert_eq!(canonical(&snapshot.to_header().unwrap()), canonical(&header));
        }
    }

    #[test]
    fn no_text_makes_reading_panic_and_no_message_has_a_value(before in text(), after in text()) {
        // What stands after a bare `&` would be a name.
        let [plain, after] = [&before, &after].map(|text| text.replace('&', ""));
        for header in [before, format!("A={plain}{SECRET}{after}"), format!("{plain}=%{SECRET}{after}")] {
            if let Err(error) = Snapshot::from_header(&header) {
                prop_assert!(!format!("{error} {error:?}").contains(SECRET), "{error:?}");
            }
        }
    }
}

#[test]
fn a_session_of_nothing_is_an_empty_header_and_no_header_is_no_session() {
    let mut carrier = HashMap::new();
    assert_eq!(extract(&carrier), Ok(None));
    inject(&mut carrier).unwrap();
    assert_eq!(carrier, HashMap::from([(SESSION_HEADER.to_owned(), String::new())]));
    assert_eq!(extract(&carrier), Ok(Some(Snapshot::default())));
}

#[test]
fn a_header_that_is_there_in_any_spelling_is_read_and_replaced() {
    let mut carrier = vec![("Hermes-Session".to_owned(), "HERMES_SESSION_ID=old".to_owned())];
    let old = extract(&carrier).unwrap().unwrap();
    assert_eq!(old.to_mapping()["HERMES_SESSION_ID"], "old");
    Session::new().session_id("new").sync_scope(|| inject(&mut carrier)).unwrap();
    assert_eq!(carrier.len(), 1);
    assert_eq!(extract(&carrier).unwrap().unwrap().to_mapping()["HERMES_SESSION_ID"], "new");

    carrier.push(("HERMES-SESSION".to_owned(), String::new()));
    assert_eq!(extract(&carrier), Err(CarrierError::Twice));
    inject(&mut carrier).unwrap();
    assert_eq!(extract(&carrier), Ok(Some(Snapshot::default())));
}

#[test]
fn a_session_that_does_not_fit_is_refused_and_changes_nothing() {
    // A name is twelve letters and `=`, and each of these characters nine bytes.
    let of = |characters: usize| Snapshot::from_mapping([("TWELVE_CHARS", "…".repeat(characters).as_str())]).unwrap();
    let fits = (MAX_HEADER_BYTES - 13) / 9;
    assert!(of(fits).to_header().unwrap().len() <= MAX_HEADER_BYTES);
    let mut carrier = BTreeMap::from([(SESSION_HEADER.to_owned(), "HERMES_SESSION_ID=kept".to_owned())]);
    let before = carrier.clone();
    let size = 13 + 9 * (fits + 1);
    let too_large = CarrierError::TooLarge { size, limit: MAX_HEADER_BYTES };
    assert_eq!(of(fits + 1).inject(&mut carrier), Err(too_large.clone()));
    assert_eq!(carrier, before);
    let header = format!("TWELVE_CHARS={}", "%E2%80%A6".repeat(fits + 1));
    assert_eq!(Snapshot::from_header(&header), Err(too_large));
}

#[test]
fn each_fault_has_its_own_error_and_the_name_of_what_is_wrong() {
    let not_encoded = || CarrierError::NotEncoded { name: "A".to_owned() };
    let cases = [
        ("A", CarrierError::NoName),
        ("&", CarrierError::NoName),
        ("A=1&", CarrierError::NoName),
        ("%=1", CarrierError::NoName),
        ("%FF=1", CarrierError::NoName),
        ("A B=1", CarrierError::NoName),
        ("A=%", not_encoded()),
        ("A=%4", not_encoded()),
        ("A=%+4", not_encoded()),
        ("A=%FF", not_encoded()),
        ("A=a b", not_encoded()),
        ("A=a=b", not_encoded()),
        ("A=é", not_encoded()),
        ("A=%41", not_encoded()),
        ("A=1&A=2", CarrierError::Snapshot(SnapshotError::Duplicate { name: "A".to_owned() })),
        ("A=1&%41=2", CarrierError::NoName),
        (
            "HERMES_SESSION_ASYNC_DELIVERY=2",
            CarrierError::Snapshot(SnapshotError::NotBoolean { name: "HERMES_SESSION_ASYNC_DELIVERY".to_owned() }),
        ),
    ];
    for (header, error) in cases {
        assert_eq!(Snapshot::from_header(header), Err(error), "{header}");
    }
    assert_eq!(Snapshot::from_header("A=%c3%A9").unwrap().to_mapping()["A"], "é");
}

#[cfg(feature = "http")]
#[test]
fn a_header_of_http_that_is_no_text_or_there_twice_is_refused() {
    let header = |bytes: &[u8]| http::HeaderValue::from_bytes(bytes).unwrap();
    let mut headers = http::HeaderMap::new();
    assert_eq!(extract(&headers), Ok(None));
    let _ = headers.insert("Hermes-Session", header(b"A=\xff"));
    assert_eq!(extract(&headers), Err(CarrierError::NoName));
    let _ = headers.append(SESSION_HEADER, header(b"A=1"));
    assert_eq!(extract(&headers), Err(CarrierError::Twice));
    Session::new().session_id("7").sync_scope(|| inject(&mut headers)).unwrap();
    assert_eq!(headers.len(), 1);
    assert_eq!(extract(&headers).unwrap().unwrap().to_mapping()["HERMES_SESSION_ID"], "7");
}

#[cfg(feature = "http")]
#[test]
fn what_can_be_no_header_is_refused_and_changes_nothing() {
    let mut headers = http::HeaderMap::new();
    for (name, value) in [("no header", "a"), ("x", "line\nbreak")] {
        let refused = headers.set(name, value.to_owned());
        assert_eq!(refused, Err(CarrierError::NotAHeader { name: name.to_owned() }));
    }
    assert!(headers.is_empty());
}
