//! Files of data sets, archives and folders for them.
#![allow(dead_code)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use torsh_tensor::{DType, Device, Tensor};
use torsh_vision::io::write_png;

/// A folder that goes away.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("torsh-datasets-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// Writes a file, with its folders.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Writes a PNG image under any name: the content tells the format.
    pub fn picture(&self, name: &str, value: u8) {
        let path = self.write(name, "");
        let image = Tensor::from_slice(&[value; 3 * 4 * 6], [3, 4, 6], DType::U8, Device::Cpu);
        write_png(&image.unwrap(), path).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Values that differ.
pub fn noise(n: usize, seed: usize) -> Vec<u8> {
    (0..n)
        .map(|i| ((i * 37 + seed * 101 + i / 251) % 256) as u8)
        .collect()
}

/// Bytes compressed with gzip.
pub fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// A file in the format of MNIST.
pub fn idx(sizes: &[u32], data: &[u8]) -> Vec<u8> {
    let mut out = vec![0, 0, 8, sizes.len() as u8];
    sizes.iter().for_each(|n| out.extend(n.to_be_bytes()));
    out.extend(data);
    out
}

/// A PNG file of numbers into a palette, of four bits.
pub fn palette(path: &Path, rows: &[[u8; 3]]) {
    let file = fs::File::create(path).unwrap();
    let mut encoder = png::Encoder::new(file, 3, rows.len() as u32);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Four);
    encoder.set_palette((0..48).collect::<Vec<u8>>());
    let data: Vec<u8> = rows
        .iter()
        .flat_map(|[a, b, c]| [(a << 4) | b, c << 4])
        .collect();
    encoder
        .write_header()
        .unwrap()
        .write_image_data(&data)
        .unwrap();
}

/// Writes the checksum of a header of tar.
pub fn seal(header: &mut [u8]) {
    header[148..156].copy_from_slice(b"        ");
    let sum: u32 = header[..512].iter().map(|b| u32::from(*b)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
}

/// An entry of a tar archive: its header and its data.
pub fn entry(name: &str, kind: u8, data: &[u8]) -> Vec<u8> {
    let mut header = [0u8; 512];
    let short = &name.as_bytes()[..name.len().min(100)];
    header[..short.len()].copy_from_slice(short);
    header[100..107].copy_from_slice(b"0000644");
    header[124..135].copy_from_slice(format!("{:011o}", data.len()).as_bytes());
    header[156] = kind;
    header[257..263].copy_from_slice(b"ustar\0");
    seal(&mut header);
    let mut out = header.to_vec();
    out.extend(data);
    out.resize(out.len().div_ceil(512) * 512, 0);
    out
}

/// A tar archive of entries.
pub fn tar(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut out = entries.concat();
    out.extend([0; 1024]);
    out
}

/// A zip archive of files.
pub fn zipped(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, data) in files {
        zip.start_file(*name, zip::write::SimpleFileOptions::default())
            .unwrap();
        zip.write_all(data).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// What Python 2 wrote: `{"data": array, NAME: labels}`.
pub fn pickled(data: &[u8], name: &str, labels: &[u8]) -> Vec<u8> {
    let n = (data.len() / 3072) as u8;
    let mut out = b"\x80\x02}q\x01(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01K".to_vec();
    out.push(n);
    out.extend(b"M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T");
    out.extend((data.len() as u32).to_le_bytes());
    out.extend(data);
    out.extend(b"tbU");
    out.push(name.len() as u8);
    out.extend(name.as_bytes());
    out.extend(b"](");
    labels.iter().for_each(|label| out.extend([b'K', *label]));
    out.extend(b"eu.");
    out
}

/// What Python 2 wrote: `{KEY: ["class 0", ..]}`.
pub fn names(key: &str, n: usize) -> Vec<u8> {
    let mut out = b"\x80\x02}U".to_vec();
    out.push(key.len() as u8);
    out.extend(key.as_bytes());
    out.extend(b"](");
    for i in 0..n {
        let name = format!("class {i}");
        out.extend([b'U', name.len() as u8]);
        out.extend(name.as_bytes());
    }
    out.extend(b"es.");
    out
}

/// An element of a MATLAB file, padded to eight bytes.
fn element(kind: u32, data: &[u8]) -> Vec<u8> {
    let mut out = kind.to_le_bytes().to_vec();
    out.extend((data.len() as u32).to_le_bytes());
    out.extend(data);
    out.resize(out.len().div_ceil(8) * 8, 0);
    out
}

/// An element that lies in its tag, said to have `size` bytes.
pub fn small_element(kind: u16, size: u16, data: &[u8]) -> Vec<u8> {
    let mut out = [kind.to_le_bytes(), size.to_le_bytes()].concat();
    out.extend(data);
    out.resize(8, 0);
    out
}

/// A MATLAB array of a class, whose numbers are stored as another type.
pub fn array(name: &str, class: u32, dims: &[i32], kind: u32, data: &[u8]) -> Vec<u8> {
    array_of(
        element(1, name.as_bytes()),
        class,
        dims,
        &element(kind, data),
    )
}

/// A MATLAB array of a class, whose name and numbers are these elements.
pub fn array_of(name: Vec<u8>, class: u32, dims: &[i32], numbers: &[u8]) -> Vec<u8> {
    let mut flags = class.to_le_bytes().to_vec();
    flags.extend([0; 4]);
    let dims: Vec<u8> = dims.iter().flat_map(|d| d.to_le_bytes()).collect();
    let parts = [element(6, &flags), element(5, &dims), name];
    element(14, &[&parts.concat(), numbers].concat())
}

/// A MATLAB file of elements, each compressed or not.
pub fn mat(elements: &[Vec<u8>], compressed: bool) -> Vec<u8> {
    let mut out = format!("{:124}", "MATLAB 5.0 MAT-file, made up").into_bytes();
    out.extend([0, 1, b'I', b'M']);
    for one in elements {
        if compressed {
            let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
            packed.write_all(one).unwrap();
            let packed = packed.finish().unwrap();
            out.extend(15u32.to_le_bytes());
            out.extend((packed.len() as u32).to_le_bytes());
            out.extend(packed);
        } else {
            out.extend(one);
        }
    }
    out
}
