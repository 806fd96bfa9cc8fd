// The damped Kubo oscillator by Heun's method, one thread a path, all steps in registers: the same scheme and the same
// generator (Philox4x32-10, Box-Muller with 53 bits) as the library's kernel, written by hand. Sums of q², p² a block.
typedef unsigned int word;
typedef unsigned long long wide;

__device__ __forceinline__ void philox(word k0, word k1, word c[4]) {
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        wide a = (wide)c[0] * 0xD2511F53u, b = (wide)c[2] * 0xCD9E8D57u;
        word x = (word)(b >> 32) ^ c[1] ^ k0, z = (word)(a >> 32) ^ c[3] ^ k1;
        c[1] = (word)b, c[3] = (word)a, c[0] = x, c[2] = z;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
}

__device__ __forceinline__ double uniform(word high, word low) {
    return ((double)(long long)(((wide)(high >> 5) << 26) | (low >> 6)) + 0.5) * 0x1p-53;
}

__device__ __forceinline__ void two_normals(word k0, word k1, wide path, wide number, double &first, double &second) {
    word c[4] = {(word)path, (word)(path >> 32), (word)number, (word)(number >> 32)};
    philox(k0, k1, c);
    double s, t;
    sincospi(0.5 * uniform(c[2], c[3]) - 0.25, &s, &t);
    double radius = sqrt(-2.0 * log(uniform(c[0], c[1])));
    radius = c[3] & 1 ? -radius : radius;
    first = radius * (c[2] & 1 ? s : t), second = radius * (c[2] & 1 ? t : s);
}

__device__ __forceinline__ void heun(double &q, double &p, double h, double root, double beta, double nu, double z) {
    double g = h + beta * root * z;
    double a = p, b = -(q + nu * p), q1 = q + a * g, p1 = p + b * g;
    q += 0.5 * (a + p1) * g, p += 0.5 * (b - (q1 + nu * p1)) * g;
}

extern "C" __global__ void kubo(word k0, word k1, int steps, double h, double beta, double nu, double *sums) {
    wide path = (wide)blockIdx.x * blockDim.x + threadIdx.x;
    double q = 2.0, p = 0.0, root = sqrt(h), first, second;
    for (int n = 0; n < steps / 2; ++n) {
        two_normals(k0, k1, path, n, first, second);
        heun(q, p, h, root, beta, nu, first);
        heun(q, p, h, root, beta, nu, second);
    }
    double energy = 0.5 * (q * q + p * p);
    for (int offset = 16; offset; offset >>= 1) energy += __shfl_down_sync(~0u, energy, offset);
    if (threadIdx.x % 32 == 0) sums[path / 32] = energy;
}
