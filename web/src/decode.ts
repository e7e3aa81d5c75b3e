// Numbers that travel as base64.

export function decodeBytes(base64: string): Uint8Array {
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** Little-endian float32, read so on a machine of either order. */
export function decodeFloats(base64: string): Float32Array {
  const bytes = decodeBytes(base64);
  const view = new DataView(bytes.buffer);
  const floats = new Float32Array(bytes.length >> 2);
  for (let i = 0; i < floats.length; i++) floats[i] = view.getFloat32(4 * i, true);
  return floats;
}
