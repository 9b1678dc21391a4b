//! PyTorch's generator on the CPU, plainly: mt19937 (M. Matsumoto, T. Nishimura, 1998), uniform
//! numbers of 24 bits, and the polar form of normal numbers in blocks of sixteen.

struct Twister {
    state: Vec<u32>,
    next: usize,
}

impl Twister {
    fn new(seed: u32) -> Twister {
        let mut state = vec![seed];
        for i in 1..624u32 {
            let last = state[i as usize - 1];
            state.push(
                1_812_433_253u32
                    .wrapping_mul(last ^ (last >> 30))
                    .wrapping_add(i),
            );
        }
        Twister { state, next: 624 }
    }

    fn draw(&mut self) -> u32 {
        if self.next == 624 {
            for i in 0..624 {
                let y = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % 624] & 0x7fff_ffff);
                let odd = if y & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[i] = self.state[(i + 397) % 624] ^ (y >> 1) ^ odd;
            }
            self.next = 0;
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    fn uniform(&mut self) -> f64 {
        f64::from(self.draw() & 0xff_ffff) / f64::from(1 << 24)
    }
}

pub fn rand(seed: u32, n: usize) -> Vec<f64> {
    let mut g = Twister::new(seed);
    (0..n).map(|_| g.uniform()).collect()
}

/// At least 16 of them.
pub fn randn(seed: u32, n: usize) -> Vec<f64> {
    let mut g = Twister::new(seed);
    let mut out: Vec<f64> = (0..n).map(|_| g.uniform()).collect();
    let polar = |block: &mut [f64]| {
        for j in 0..8 {
            let radius = (-2.0 * (1.0 - block[j]).ln()).sqrt();
            let angle = 2.0 * std::f64::consts::PI * block[j + 8];
            (block[j], block[j + 8]) = (radius * angle.cos(), radius * angle.sin());
        }
    };
    for block in out.chunks_exact_mut(16) {
        polar(block);
    }
    if !n.is_multiple_of(16) {
        let block = &mut out[n - 16..];
        block.fill_with(|| g.uniform());
        polar(block);
    }
    out
}
