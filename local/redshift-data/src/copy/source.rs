//! What COPY reads from S3: the manifest or the listing of a prefix, then the objects, streamed.

use aws_sdk_s3::Client;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_s3::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use serde::Deserialize;

use super::spectrum;
use crate::dialect::copy::CopyCommand;
use crate::failure::Failure;

/// The local S3, which tells accounts apart by their access keys.
#[derive(Debug)]
pub(crate) struct S3 {
    config: aws_sdk_s3::Config,
}

impl S3 {
    /// Addressed in path style.
    pub(crate) async fn at(endpoint: &str) -> Self {
        let shared = aws_config::defaults(BehaviorVersion::latest())
            .region(Region::from_static("us-east-1"))
            .no_credentials()
            .endpoint_url(endpoint)
            .load()
            .await;
        Self { config: aws_sdk_s3::config::Builder::from(&shared).force_path_style(true).build() }
    }

    /// A client that sees what the holder of this access key sees.
    pub(crate) fn of_account(&self, access_key: &str) -> Client {
        let credentials = Credentials::new(access_key, "local", None, None, "local");
        Client::from_conf(self.config.to_builder().credentials_provider(credentials).build())
    }
}

/// An object to load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) bucket: String,
    pub(crate) key: String,
    pub(crate) mandatory: bool,
    pub(crate) content_length: Option<i64>,
}

impl File {
    pub(crate) fn url(&self) -> String {
        format!("s3://{}/{}", self.bucket, self.key)
    }
}

#[derive(Deserialize)]
struct Manifest {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    url: String,
    #[serde(default)]
    mandatory: bool,
    meta: Option<Meta>,
}

#[derive(Deserialize)]
struct Meta {
    content_length: Option<i64>,
}

/// The objects of a COPY, in the manifest's order.
pub(crate) async fn files(s3: &Client, command: &CopyCommand, query_id: i64) -> Result<Vec<File>, Failure> {
    let (bucket, key) = split(&command.from)?;
    let files = if command.manifest {
        manifest(s3, command, bucket, key, query_id).await?
    } else {
        prefix(s3, bucket, key).await?
    };
    if files.is_empty() {
        return Err(Failure::new(if command.manifest {
            "The manifest file has no entries".to_owned()
        } else {
            format!("The specified S3 prefix '{key}' does not exist")
        }));
    }
    Ok(files)
}

/// A whole small object, such as a jsonpaths file.
pub(crate) async fn whole(s3: &Client, url: &str) -> Result<Vec<u8>, Failure> {
    let (bucket, key) = split(url)?;
    let object = s3.get_object().bucket(bucket).key(key).send().await;
    let object = object.map_err(|error| Failure::new(format!("{}, file {url}", s3_text(&error))))?;
    let body =
        object.body.collect().await.map_err(|error| Failure::new(format!("S3ServiceException:{error}, file {url}")))?;
    Ok(body.into_bytes().to_vec())
}

async fn manifest(
    s3: &Client,
    command: &CopyCommand,
    bucket: &str,
    key: &str,
    query_id: i64,
) -> Result<Vec<File>, Failure> {
    let problem = |text: String| {
        Failure::new("Problem reading manifest file").with_detail(block(
            "Problem reading manifest file",
            8001,
            &text,
            query_id,
        ))
    };
    let object = match s3.get_object().bucket(bucket).key(key).send().await {
        Ok(object) => object,
        Err(error) => return Err(problem(s3_text(&error))),
    };
    let body = object.body.collect().await.map_err(|error| problem(error.to_string()))?.into_bytes();
    let manifest: Manifest = serde_json::from_slice(&body)
        .map_err(|error| problem(format!("Invalid JSON in manifest file {}: {error}", command.from)))?;
    manifest
        .entries
        .into_iter()
        .map(|entry| {
            let (bucket, key) = split(&entry.url)?;
            if command.format.is_columnar() {
                let Some(meta) = &entry.meta else {
                    return Err(spectrum(15_003, "File entry does not have 'meta' key.", query_id));
                };
                if meta.content_length.is_none() {
                    return Err(spectrum(15_003, "File entry does not have 'content_length' key.", query_id));
                }
            }
            Ok(File {
                bucket: bucket.to_owned(),
                key: key.to_owned(),
                mandatory: entry.mandatory,
                content_length: entry.meta.and_then(|meta| meta.content_length),
            })
        })
        .collect()
}

/// All objects whose key begins so; a prefix is no folder.
async fn prefix(s3: &Client, bucket: &str, prefix: &str) -> Result<Vec<File>, Failure> {
    let mut pages = s3.list_objects_v2().bucket(bucket).prefix(prefix).into_paginator().send();
    let mut files = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| Failure::new(s3_text(&error)))?;
        files.extend(page.contents().iter().filter_map(|object| object.key()).map(|key| File {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            mandatory: true,
            content_length: None,
        }));
    }
    Ok(files)
}

fn split(url: &str) -> Result<(&str, &str), Failure> {
    url.strip_prefix("s3://")
        .and_then(|rest| rest.split_once('/'))
        .filter(|(bucket, key)| !bucket.is_empty() && !key.is_empty())
        .ok_or_else(|| Failure::new(format!("Invalid S3 URL '{url}'")))
}

/// Begins to read an object. None: it isn't there, and it needn't be.
pub(crate) async fn open(
    s3: &Client,
    file: &File,
    columnar: bool,
    query_id: i64,
) -> Result<Option<GetObjectOutput>, Failure> {
    let object = match s3.get_object().bucket(&file.bucket).key(&file.key).send().await {
        Ok(object) => object,
        Err(error) if error.code() == Some("NoSuchKey") => {
            if !file.mandatory {
                return Ok(None);
            }
            let text = "Mandatory url is not present in manifest file.";
            let context = format!("Url: {}; {}", file.url(), s3_text(&error));
            return Err(Failure::new(text).with_detail(block(text, 8001, &context, query_id)));
        }
        Err(error) => {
            let text = s3_text(&error);
            return Err(Failure::new(text.clone()).with_detail(block(&text, 8001, &file.url(), query_id)));
        }
    };
    match (file.content_length, object.content_length()) {
        (Some(told), Some(found)) if columnar && told > found => Err(spectrum(
            15_001,
            &format!(
                "S3ServiceException:The requested range is not satisfiable,Status 416,Error InvalidRange, File '{}'",
                file.url()
            ),
            query_id,
        )),
        (Some(told), Some(found)) if columnar && told < found => {
            Err(spectrum(15_001, &format!("File '{}' has an invalid version number.", file.url()), query_id))
        }
        _ => Ok(Some(object)),
    }
}

/// An error of S3 in Redshift's form.
fn s3_text<E, R>(error: &SdkError<E, R>) -> String
where
    SdkError<E, R>: ProvideErrorMetadata + std::error::Error,
{
    match error.code() {
        Some(code) => {
            let status = match code {
                "NoSuchKey" | "NoSuchBucket" => 404,
                "AccessDenied" => 403,
                "SlowDown" => 503,
                _ => 400,
            };
            let message = error.message().unwrap_or(code);
            format!("S3ServiceException:{message},Status {status},Error {code},CanRetry 1")
        }
        None => format!("S3ServiceException:{}", DisplayErrorContext(error)),
    }
}

/// The block of lines Redshift puts into `Detail`.
pub(crate) fn block(error: &str, code: i32, context: &str, query_id: i64) -> String {
    let line = "-----------------------------------------------";
    format!(
        "\n  {line}\n  error:  {error}\n  code:      {code}\n  context:   {context}\n  query:     {query_id}\n  \
         location:  local\n  process:   redshift-data\n  {line}"
    )
}
