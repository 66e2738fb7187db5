//! Ledger items as DynamoDB attributes, and back.

use std::collections::{BTreeSet, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;
use tollgate_domain::identity::{EventId, Fingerprint};
use tollgate_domain::ledger::{Attention, Checkpoint, EventKey, LedgerItem, NewClaim, Quarantine, Rejection, Status};
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::{BilledAs, Limit, RejectedReason};
use tollgate_domain::ports::Image;
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;

pub(crate) type Attributes = HashMap<String, AttributeValue>;

pub(crate) fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

pub(crate) fn number(value: impl Into<i128>) -> AttributeValue {
    AttributeValue::N(value.into().to_string())
}

pub(crate) fn millis(value: UtcMillis) -> AttributeValue {
    number(value.get())
}

/// The primary key of an event's item.
pub(crate) fn key_of(key: &EventKey) -> Attributes {
    [("pk".to_owned(), text(key.partition())), ("sk".to_owned(), text(key.id.as_str()))].into()
}

/// The item that a claim puts.
pub(crate) fn claimed(claim: &NewClaim) -> Attributes {
    let mut item = key_of(&claim.key);
    item.extend(
        [
            ("status", text(Status::Inserting.as_str())),
            ("createdAtMs", millis(claim.now)),
            ("updatedAtMs", millis(claim.now)),
            ("rowInsertedAtMs", millis(claim.now)),
            ("periodMonth", text(claim.period_month.to_string())),
            ("fingerprint", text(claim.fingerprint.as_str())),
            ("submissionId", text(claim.submission_id.as_str())),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    item
}

/// The item that DynamoDB handed out, or that there is none, or that this version cannot read it.
pub(crate) fn image(attributes: Option<&Attributes>) -> Image {
    match attributes {
        None => Image::Absent,
        Some(attributes) if attributes.is_empty() => Image::Absent,
        Some(attributes) => match read(attributes) {
            Ok(item) => Image::Item(Box::new(item)),
            Err(Unreadable(attribute)) => Image::Unreadable(format!("attribute {attribute} is missing or unreadable")),
        },
    }
}

/// The attribute that could not be read.
struct Unreadable(&'static str);

/// An attribute that is absent, present and readable, or neither.
fn optional<T>(
    attributes: &Attributes,
    name: &'static str,
    parse: impl FnOnce(&AttributeValue) -> Option<T>,
) -> Result<Option<T>, Unreadable> {
    attributes.get(name).map(|value| parse(value).ok_or(Unreadable(name))).transpose()
}

fn required<T>(
    attributes: &Attributes,
    name: &'static str,
    parse: impl FnOnce(&AttributeValue) -> Option<T>,
) -> Result<T, Unreadable> {
    optional(attributes, name, parse)?.ok_or(Unreadable(name))
}

/// Reads a text attribute through `parse`.
pub(crate) fn as_text<T>(parse: impl FnOnce(&str) -> Option<T>) -> impl FnOnce(&AttributeValue) -> Option<T> {
    |value| value.as_s().ok().and_then(|text| parse(text))
}

pub(crate) fn as_u64(value: &AttributeValue) -> Option<u64> {
    value.as_n().ok()?.parse().ok()
}

pub(crate) fn as_millis(value: &AttributeValue) -> Option<UtcMillis> {
    value.as_n().ok()?.parse().ok().and_then(UtcMillis::new)
}

fn as_limit(value: &AttributeValue) -> Option<Limit> {
    as_u64(value).and_then(Limit::new)
}

fn read(from: &Attributes) -> Result<LedgerItem, Unreadable> {
    let space = required(from, "pk", as_text(|pk| SpaceId::parse(pk.split_once('#')?.0).ok()))?;
    let checkpoint = optional(from, "billingAcceptedAtMs", as_millis)?
        .map(|accepted_at| {
            Ok(Checkpoint {
                accepted_at,
                billed_as: required(from, "billedAs", as_text(BilledAs::from_stored))?,
                limit: optional(from, "billedLimit", as_limit)?,
            })
        })
        .transpose()?;
    let rejection = optional(from, "rejectedReason", as_text(RejectedReason::from_stored))?
        .map(|reason| {
            Ok(Rejection {
                reason,
                limit_seen: optional(from, "rejectedLimitSeen", as_limit)?,
                count_seen: optional(from, "rejectedCountSeen", as_u64)?,
            })
        })
        .transpose()?;
    let conflicts = optional(from, "conflicts", |value| {
        value.as_ss().ok()?.iter().map(|text| Fingerprint::parse(text).ok()).collect::<Option<BTreeSet<_>>>()
    })?;
    Ok(LedgerItem {
        key: EventKey { space, id: required(from, "sk", as_text(|sk| EventId::parse(sk).ok()))? },
        status: required(from, "status", as_text(Status::from_stored))?,
        created_at: required(from, "createdAtMs", as_millis)?,
        updated_at: required(from, "updatedAtMs", as_millis)?,
        row_inserted_at: required(from, "rowInsertedAtMs", as_millis)?,
        period_month: required(from, "periodMonth", as_text(|month| PeriodMonth::parse(month).ok()))?,
        fingerprint: required(from, "fingerprint", as_text(|hex| Fingerprint::parse(hex).ok()))?,
        submission_id: required(from, "submissionId", as_text(|id| Some(id.to_owned())))?,
        checkpoint,
        rejection,
        quarantine: Quarantine {
            count: optional(from, "quarantineCount", as_u64)?.unwrap_or_default(),
            last_at: optional(from, "lastQuarantineAtMs", as_millis)?,
            last_error: optional(from, "lastQuarantineError", as_text(|text| Some(text.to_owned())))?,
        },
        conflicts: conflicts.unwrap_or_default(),
        attention: optional(from, "attention", as_text(Attention::from_stored))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim() -> NewClaim {
        NewClaim {
            key: EventKey {
                space: SpaceId::parse("acme").unwrap(),
                id: EventId::parse(&format!("uev_{}", "0f".repeat(32))).unwrap(),
            },
            fingerprint: Fingerprint::parse(&"ab".repeat(32)).unwrap(),
            submission_id: "sub_1".to_owned(),
            period_month: PeriodMonth::parse("2026-11").unwrap(),
            now: UtcMillis::new(1_790_000_000_000).unwrap(),
        }
    }

    #[test]
    fn a_claimed_item_reads_back_as_the_domain_says_it_stands() {
        assert_eq!(image(Some(&claimed(&claim()))), Image::Item(Box::new(claim().into_item())));
    }

    #[test]
    fn an_item_of_another_shape_is_unreadable_and_its_content_is_not_told() {
        for (name, value) in [
            ("status", text("FROZEN")),
            ("billingAcceptedAtMs", number(1_u64)), // without billedAs
            ("billingAcceptedAtMs", text("1")),
            ("rejectedReason", text("BECAUSE")),
            ("fingerprint", text("secret")),
            ("periodMonth", text("2026-13")),
            ("conflicts", text("x")),
            ("pk", text("acme")),
        ] {
            let mut item = claimed(&claim());
            item.insert(name.to_owned(), value);
            let Image::Unreadable(why) = image(Some(&item)) else { panic!("{name}") };
            assert!(!why.contains("secret"), "{why}");
        }
        for name in [
            "pk",
            "sk",
            "status",
            "createdAtMs",
            "updatedAtMs",
            "rowInsertedAtMs",
            "periodMonth",
            "fingerprint",
            "submissionId",
        ] {
            let mut item = claimed(&claim());
            item.remove(name);
            assert!(matches!(image(Some(&item)), Image::Unreadable(_)), "{name}");
        }
        assert_eq!(image(None), Image::Absent);
    }
}
