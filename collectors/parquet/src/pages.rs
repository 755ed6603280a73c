//! The pages of one column in one row group, compressed.

use std::cell::RefCell;

use bytes::Bytes;
use parquet::basic::{BoundaryOrder, Compression, Encoding, Type, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ColumnIndexBuilder, OffsetIndexBuilder};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

thread_local! {
    /// One for all columns that a thread writes: making one takes longer than a small page.
    static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
}

fn compress(bytes: &[u8]) -> Result<Bytes> {
    let level = ZstdLevel::default().compression_level();
    let compressed = COMPRESSOR.with_borrow_mut(|kept| match kept {
        Some(compressor) => compressor.compress(bytes),
        None => kept
            .insert(zstd::bulk::Compressor::new(level)?)
            .compress(bytes),
    });
    Ok(Bytes::from(compressed?))
}

/// Least and largest value of a page.
pub type Range = (i64, i64);

/// A data page as it was written.
struct Written {
    rows: i64,
    nulls: i64,
    bytes: i32,
    range: Option<Range>,
}

/// Pages of a column.
#[derive(Default)]
pub struct Pages {
    bytes: Vec<u8>,
    uncompressed: usize,
    data: Vec<Written>,
    encodings: Vec<Encoding>,
}

impl Pages {
    /// Whether there is a page whose values are numbers of the dictionary.
    pub fn need_dictionary(&self) -> bool {
        self.encodings.contains(&Encoding::RLE_DICTIONARY)
    }

    /// Append a data page: levels and values as the format has them.
    pub fn push(
        &mut self,
        body: &[u8],
        encoding: Encoding,
        (rows, nulls): (usize, usize),
        range: Option<Range>,
    ) -> Result<()> {
        let page = Page::DataPage {
            buf: compress(body)?,
            num_values: u32::try_from(rows).map_err(too_large)?,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let (written, uncompressed) = append(page, body.len(), &mut self.bytes)?;
        self.uncompressed += uncompressed;
        self.data.push(Written {
            rows: i64::try_from(rows).map_err(too_large)?,
            nulls: i64::try_from(nulls).map_err(too_large)?,
            bytes: i32::try_from(written).map_err(too_large)?,
            range,
        });
        if !self.encodings.contains(&encoding) {
            self.encodings.push(encoding);
        }
        Ok(())
    }

    /// All of it as the column of a row group, the dictionary (values and their number) first.
    pub fn finish(
        mut self,
        column: &ColumnDescPtr,
        dictionary: Option<(&[u8], usize)>,
    ) -> Result<(Bytes, ColumnCloseResult)> {
        let mut all = Vec::new();
        if let Some((body, values)) = dictionary {
            let page = Page::DictionaryPage {
                buf: compress(body)?,
                num_values: u32::try_from(values).map_err(too_large)?,
                encoding: Encoding::PLAIN,
                is_sorted: false,
            };
            self.uncompressed += append(page, body.len(), &mut all)?.1;
            self.encodings.push(Encoding::PLAIN);
        }
        self.encodings.push(Encoding::RLE);
        let first_page = i64::try_from(all.len()).map_err(too_large)?;
        if all.is_empty() {
            all = std::mem::take(&mut self.bytes);
        } else {
            all.extend_from_slice(&self.bytes);
        }

        let mut offsets = OffsetIndexBuilder::new();
        let mut at = first_page;
        for page in &self.data {
            offsets.append_row_count(page.rows);
            offsets.append_offset_and_size(at, page.bytes);
            at += i64::from(page.bytes);
        }
        let rows: i64 = self.data.iter().map(|page| page.rows).sum();
        let mut metadata = ColumnChunkMetaData::builder(column.clone())
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_encodings(std::mem::take(&mut self.encodings))
            .set_num_values(rows)
            .set_total_compressed_size(i64::try_from(all.len()).map_err(too_large)?)
            .set_total_uncompressed_size(i64::try_from(self.uncompressed).map_err(too_large)?)
            .set_data_page_offset(first_page)
            .set_dictionary_page_offset(dictionary.map(|_| 0));
        if let Some(statistics) = self.statistics() {
            metadata = metadata.set_statistics(statistics);
        }
        let closed = ColumnCloseResult {
            bytes_written: all.len() as u64,
            rows_written: u64::try_from(rows).map_err(too_large)?,
            metadata: metadata.build()?,
            bloom_filter: None,
            column_index: self.column_index()?,
            offset_index: Some(offsets.build()),
        };
        Ok((Bytes::from(all), closed))
    }

    /// The range of each page, if all have one.
    fn ranges(&self) -> Option<Vec<Range>> {
        self.data.iter().map(|page| page.range).collect()
    }

    fn statistics(&self) -> Option<Statistics> {
        let ranges = self.ranges()?;
        let min = ranges.iter().map(|range| range.0).min();
        let max = ranges.iter().map(|range| range.1).max();
        let nulls = self.data.iter().map(|page| page.nulls.unsigned_abs()).sum();
        Some(Statistics::int64(min, max, None, Some(nulls), false))
    }

    fn column_index(&self) -> Result<Option<ColumnIndexMetaData>> {
        let Some(ranges) = self.ranges() else {
            return Ok(None);
        };
        let mut index = ColumnIndexBuilder::new(Type::INT64);
        for (page, (min, max)) in self.data.iter().zip(&ranges) {
            let bytes = |value: &i64| value.to_le_bytes().to_vec();
            index.append(false, bytes(min), bytes(max), page.nulls);
        }
        if ranges.is_sorted() && ranges.is_sorted_by_key(|range| range.1) {
            index.set_boundary_order(BoundaryOrder::ASCENDING);
        }
        index.build().map(Some)
    }
}

/// Append a page with its head; returns its bytes as they are, and before compression.
fn append(page: Page, uncompressed: usize, out: &mut Vec<u8>) -> Result<(usize, usize)> {
    let mut sink = TrackedWrite::new(out);
    let page = CompressedPage::new(page, uncompressed);
    let mut writer = SerializedPageWriter::new(&mut sink);
    let written = writer.write_page(page)?;
    writer.close()?;
    Ok((written.compressed_size, written.uncompressed_size))
}

fn too_large(error: std::num::TryFromIntError) -> ParquetError {
    ParquetError::General(format!("a column is too large: {error}"))
}
