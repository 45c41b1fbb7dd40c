export async function checkMasks() {}
