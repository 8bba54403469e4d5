// What an exported page carries with it, in place of a server; null where a server has written the page.

const element = document.getElementById('given');
export const GIVEN = element ? JSON.parse(element.textContent) : null;
