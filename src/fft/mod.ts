/**
 * Discrete Fourier transforms of distributed arrays.
 *
 * @module
 */
export { allocateOperand } from "./allocate_operand.ts";
export { FFT, fft, type FFTMeasurement, ifft, irfft, rfft } from "./fft.ts";
export type { FFTEffort, FFTReport } from "./engines/engine.ts";
export type { FFTAlgorithmName, FFTEngineName } from "./engines/registry.ts";
export type {
  FFTAutotuneOptions,
  FFTExecuteOptions,
  FFTOptions,
  FFTPlanOptions,
  OperandOptions,
  RealTransformOptions,
  TransformOptions,
} from "./options.ts";
export type { FFTDirection, FFTNorm, FFTType, LastAxisParity } from "./problem.ts";
