//! Small files of binary formats.

/// A field of a protocol buffer that holds bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(bytes);
    out
}

/// A SentencePiece model of the type 1 (unigram) or 2 (BPE).
pub fn sentence_piece(kind: u8) -> Vec<u8> {
    let piece = |text: &str, score: f32, kind: u8| {
        let mut message = field(1, text.as_bytes());
        message.push(2 << 3 | 5);
        message.extend(score.to_le_bytes());
        message.extend([3 << 3, kind]);
        field(1, &message)
    };
    let mut out = piece("<unk>", 0.0, 2);
    out.extend(piece("<s>", 0.0, 3));
    out.extend(piece("</s>", 0.0, 3));
    out.extend(piece("<extra>", 0.0, 4));
    let pieces = [
        ("\u{2581}hello", -1.0),
        ("\u{2581}", -2.0),
        ("he", -3.0),
        ("llo", -3.5),
        ("hello", -3.7),
        ("h", -4.0),
        ("e", -5.0),
        ("l", -6.0),
        ("o", -6.5),
        ("ll", -7.0),
    ];
    for (text, score) in pieces {
        out.extend(piece(text, score, 1));
    }
    for byte in [b'a', 0xc3] {
        out.extend(piece(&format!("<0x{byte:02X}>"), -9.0, 6));
    }
    out.extend(field(2, &[3 << 3, kind]));
    out
}

/// A WAV file.
pub fn wav(channels: u16, bits: u16, float: bool) -> Vec<u8> {
    let spec = hound::WavSpec {
        channels,
        sample_rate: 8000,
        bits_per_sample: bits,
        sample_format: match float {
            true => hound::SampleFormat::Float,
            false => hound::SampleFormat::Int,
        },
    };
    let mut bytes = std::io::Cursor::new(Vec::new());
    let mut writer = hound::WavWriter::new(&mut bytes, spec).expect("a writer");
    for i in 0..100 * i32::from(channels) {
        match float {
            true => writer.write_sample(i as f32 * 1e-3),
            false => writer.write_sample(i % 100),
        }
        .expect("a sample");
    }
    writer.finalize().expect("a file");
    bytes.into_inner()
}

/// A container of CTranslate2.
struct Container(Vec<u8>, u32);

impl Container {
    fn text(to: &mut Vec<u8>, text: &str) {
        to.extend((text.len() as u16 + 1).to_le_bytes());
        to.extend(text.bytes().chain([0]));
    }

    fn variable(&mut self, name: &str, dims: &[u32], dtype: u8, bytes: &[u8]) {
        Container::text(&mut self.0, name);
        self.0.push(dims.len() as u8);
        dims.iter().for_each(|d| self.0.extend(d.to_le_bytes()));
        self.0.push(dtype);
        self.0.extend((bytes.len() as u32).to_le_bytes());
        self.0.extend(bytes);
        self.1 += 1;
    }

    fn floats(&mut self, name: &str, dims: &[u32]) {
        let count = dims.iter().product::<u32>();
        let value = |i: u32| match name.ends_with("bias") {
            true => 0.0f32,
            false => (i % 7) as f32 * 0.1 - 0.3,
        };
        let bytes: Vec<u8> = (0..count).flat_map(|i| value(i).to_le_bytes()).collect();
        self.variable(name, dims, 0, &bytes);
    }

    fn layer(&mut self, name: &str, rows: u32, columns: u32) {
        self.floats(&format!("{name}/weight"), &[rows, columns]);
        self.floats(&format!("{name}/bias"), &[rows]);
    }

    fn norm(&mut self, name: &str, width: u32) {
        self.floats(&format!("{name}/gamma"), &[width]);
        self.floats(&format!("{name}/beta"), &[width]);
    }
}

/// The container of a very small Whisper.
pub fn whisper() -> Vec<u8> {
    const WIDTH: u32 = 4;
    let mut c = Container(Vec::new(), 0);
    for (name, inputs) in [("conv1", 2), ("conv2", WIDTH)] {
        c.floats(&format!("encoder/{name}/weight"), &[WIDTH, inputs, 3]);
        c.floats(&format!("encoder/{name}/bias"), &[WIDTH]);
    }
    // A table of whole numbers with a scale for each row.
    c.variable("decoder/embeddings/weight", &[5, WIDTH], 1, &[3; 20]);
    let scales: Vec<u8> = [1.0f32; 5].iter().flat_map(|s| s.to_le_bytes()).collect();
    c.variable("decoder/embeddings/weight_scale", &[5], 0, &scales);
    for (part, positions) in [("encoder", 3), ("decoder", 4)] {
        c.floats(
            &format!("{part}/position_encodings/encodings"),
            &[positions, WIDTH],
        );
        c.variable(&format!("{part}/num_heads"), &[], 2, &2i16.to_le_bytes());
        let layer = format!("{part}/layer_0");
        c.norm(&format!("{layer}/self_attention/layer_norm"), WIDTH);
        c.layer(
            &format!("{layer}/self_attention/linear_0"),
            3 * WIDTH,
            WIDTH,
        );
        c.layer(&format!("{layer}/self_attention/linear_1"), WIDTH, WIDTH);
        if part == "decoder" {
            c.norm(&format!("{layer}/attention/layer_norm"), WIDTH);
            c.layer(&format!("{layer}/attention/linear_0"), WIDTH, WIDTH);
            c.layer(&format!("{layer}/attention/linear_1"), 2 * WIDTH, WIDTH);
            c.layer(&format!("{layer}/attention/linear_2"), WIDTH, WIDTH);
        }
        c.norm(&format!("{layer}/ffn/layer_norm"), WIDTH);
        c.layer(&format!("{layer}/ffn/linear_0"), 6, WIDTH);
        c.layer(&format!("{layer}/ffn/linear_1"), WIDTH, 6);
        c.norm(&format!("{part}/layer_norm"), WIDTH);
    }
    let mut out = 6u32.to_le_bytes().to_vec();
    Container::text(&mut out, "WhisperSpec");
    out.extend(3u32.to_le_bytes());
    out.extend(c.1.to_le_bytes());
    out.extend(c.0);
    out.extend(1u32.to_le_bytes());
    Container::text(&mut out, "decoder/projection/weight");
    Container::text(&mut out, "decoder/embeddings/weight");
    out
}
