//! S3: the full payloads, written once.

use aws_sdk_s3::Client;
use aws_sdk_s3::error::SdkError;
use aws_sdk_s3::operation::get_object::GetObjectError;
use aws_sdk_s3::primitives::ByteStream;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use tollgate_domain::archive::ArchiveObject;
use tollgate_domain::ports::{Archive, PortError, PortResult, Put};

use crate::aws::decide;

/// Closes: a later delivery overwriting an earlier payload.
pub const IF_NONE_MATCH: &str = "*";

/// The archive on S3.
#[derive(Debug, Clone)]
pub struct S3Archive {
    client: Client,
    bucket: String,
}

impl S3Archive {
    /// The archive in `bucket`.
    pub fn new(client: Client, bucket: impl Into<String>) -> Self {
        Self { client, bucket: bucket.into() }
    }

    /// Keys that begin with `prefix`, in order. For operators and tests; holds all keys in memory.
    pub async fn list(&self, prefix: &str) -> PortResult<Vec<String>> {
        let mut pages = self.client.list_objects_v2().bucket(&self.bucket).prefix(prefix).into_paginator().send();
        let mut keys = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| decide("ListObjectsV2", &error))?;
            keys.extend(page.contents.unwrap_or_default().into_iter().filter_map(|object| object.key));
        }
        Ok(keys)
    }
}

impl Archive for S3Archive {
    async fn put(&self, object: &ArchiveObject) -> PortResult<Put> {
        let put = self
            .client
            .put_object()
            .bucket(&self.bucket)
            .key(&object.key)
            .if_none_match(IF_NONE_MATCH)
            .content_type("application/json")
            .body(ByteStream::from(object.body.clone().into_bytes()));
        match put.send().await {
            Ok(_) => Ok(Put::Stored),
            Err(SdkError::ServiceError(service)) if service.err().code() == Some("PreconditionFailed") => {
                match self.get(&object.key).await? {
                    Some(body) if body == object.body.as_bytes() => Ok(Put::Same),
                    Some(_) => Ok(Put::Different),
                    // Taken a moment ago and gone now: somebody else is at this key. The same put again.
                    None => Err(PortError::Contended("PutObject: the key was taken and is free again".to_owned())),
                }
            }
            Err(error) => Err(decide("PutObject", &error)),
        }
    }

    async fn get(&self, key: &str) -> PortResult<Option<Vec<u8>>> {
        match self.client.get_object().bucket(&self.bucket).key(key).send().await {
            Ok(object) => match object.body.collect().await {
                Ok(bytes) => Ok(Some(bytes.to_vec())),
                Err(_) => Err(PortError::Unknown("GetObject: the body broke off".to_owned())),
            },
            Err(SdkError::ServiceError(service)) if matches!(service.err(), GetObjectError::NoSuchKey(_)) => Ok(None),
            Err(error) => Err(decide("GetObject", &error)),
        }
    }
}
